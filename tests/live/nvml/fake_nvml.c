/* A stand-in for NVIDIA's libnvidia-ml.so.1: plays what the file named by FAKE_NVML says.

   One statement a line; sizes in bytes, "-" instead of NAME or UUID: not supported, GPU is the number of a `gpu` or
   `mig` statement:
     init CODE                               nvmlInit fails with CODE
     gpu GPU NAME UUID TOTAL [RESERVED]      a card, NVML's index is GPU
     mig GPU CARD NAME UUID TOTAL GI CI      a slice of the card CARD (GPU 16 and above)
     used GPU VALUE...                       memory in use, one value a call, the last one stays
     util GPU VALUE...                       utilisation in percent, likewise
     file GPU PATH                           memory in use is the number in that file, at each question
     at SECONDS WHAT GPU VALUE [VALUE]       from this moment on (seconds since nvmlInit):
        used util power throttle ecc rx tx   the value (power in milliwatts, rx and tx in KiB/s)
        proc PID BYTES                       a process holds so much; 0: it is gone; -1: the driver does not say
        error CODE                           every question fails with CODE; 0: no longer
        xid CODE                             an Xid event
        block SECONDS                        the next question blocks so long
   A VALUE of NS answers "not supported", LOST (of used and util) "GPU is lost" from then on for every question. */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SUCCESS 0
#define INVALID_ARGUMENT 2
#define NOT_SUPPORTED 3
#define INSUFFICIENT_SIZE 7
#define TIMEOUT 10
#define GPU_IS_LOST 15
#define MAX_GPUS 32
#define MAX_STEPS 64
#define MAX_EVENTS 512
#define MAX_PROCESSES 16
#define XID_EVENT 8
#define IS_NS -1
#define IS_LOST -2

enum { USED, UTIL, POWER, THROTTLE, ECC, RX, TX, METERS };
static const char *METER_NAMES[METERS] = {"used", "util", "power", "throttle", "ecc", "rx", "tx"};

typedef struct {
    int there, number, card, error, gi, ci, slices, processes;
    int steps[2], at[2];
    char name[96], uuid[96], file[512];
    unsigned long long total, reserved;
    long long step[2][MAX_STEPS], meter[METERS];
    struct { unsigned int pid; long long bytes; } process[MAX_PROCESSES];
} Gpu;

typedef struct { double at; char what[16]; int gpu; long long value, more; int done; } Event;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned int version; unsigned long long total, reserved, free, used; } Memory2;
typedef struct { unsigned int gpu, memory; } Utilization;
typedef struct { unsigned int pid; unsigned long long bytes; unsigned int gi, ci; } Process;
typedef struct { Gpu *device; unsigned long long type, data; unsigned int gi, ci; } EventData;

static Gpu gpus[MAX_GPUS];
static Event events[MAX_EVENTS];
static int event_count;
static struct timespec start;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)(t.tv_sec - start.tv_sec) + (double)(t.tv_nsec - start.tv_nsec) / 1e9;
}

static long long number(const char *word) {
    return !word ? 0 : !strcmp(word, "NS") ? IS_NS : !strcmp(word, "LOST") ? IS_LOST : atoll(word);
}

static void read_event(void) {
    Event *event = &events[event_count++ % MAX_EVENTS];
    memset(event, 0, sizeof *event);
    event->at = atof(strtok(NULL, " \n"));
    snprintf(event->what, sizeof event->what, "%s", strtok(NULL, " \n"));
    event->gpu = atoi(strtok(NULL, " \n")) % MAX_GPUS;
    event->value = number(strtok(NULL, " \n"));
    event->more = number(strtok(NULL, " \n"));
}

static void read_gpu(Gpu *gpu, int slice) {
    const char *reserved;
    gpu->there = 1;
    gpu->card = slice ? atoi(strtok(NULL, " \n")) : -1;
    for (int at = 0; at < METERS; at++)
        gpu->meter[at] = IS_NS;
    snprintf(gpu->name, sizeof gpu->name, "%s", strtok(NULL, " \n"));
    snprintf(gpu->uuid, sizeof gpu->uuid, "%s", strtok(NULL, " \n"));
    gpu->total = strtoull(strtok(NULL, " \n"), NULL, 10);
    if (slice) {
        gpu->gi = atoi(strtok(NULL, " \n"));
        gpu->ci = atoi(strtok(NULL, " \n"));
        gpus[gpu->card].slices++;
    } else if ((reserved = strtok(NULL, " \n"))) {
        gpu->reserved = strtoull(reserved, NULL, 10);
    }
}

static int read_file(void) {
    char line[4096];
    int code = SUCCESS;
    const char *path = getenv("FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    clock_gettime(CLOCK_MONOTONIC, &start);
    if (!file)
        return 9; /* driver not loaded */
    while (fgets(line, sizeof line, file)) {
        char *what = strtok(line, " \n");
        if (!what || *what == '#')
            continue;
        if (!strcmp(what, "at")) {
            read_event();
            continue;
        }
        char *first = strtok(NULL, " \n");
        if (!first)
            continue;
        int place = atoi(first) % MAX_GPUS;
        Gpu *gpu = &gpus[place];
        gpu->number = place;
        if (!strcmp(what, "file"))
            snprintf(gpu->file, sizeof gpu->file, "%s", strtok(NULL, " \n"));
        if (!strcmp(what, "init"))
            code = atoi(first);
        else if (!strcmp(what, "gpu") || !strcmp(what, "mig"))
            read_gpu(gpu, *what == 'm');
        for (int meter = USED; meter <= UTIL; meter++) {
            char *word;
            while (!strcmp(what, METER_NAMES[meter]) && gpu->steps[meter] < MAX_STEPS && (word = strtok(NULL, " \n")))
                gpu->step[meter][gpu->steps[meter]++] = number(word);
        }
    }
    fclose(file);
    return code;
}

static void hold(Gpu *gpu, unsigned int pid, long long bytes) {
    int at = 0;
    while (at < gpu->processes && gpu->process[at].pid != pid)
        at++;
    if (bytes == 0 && at < gpu->processes) {
        gpu->process[at] = gpu->process[--gpu->processes];
    } else if (bytes != 0 && at < MAX_PROCESSES) {
        gpu->process[at].pid = pid;
        gpu->process[at].bytes = bytes;
        gpu->processes += at == gpu->processes;
    }
}

/* Bring all GPUs up to this moment; seconds that a question to `asked` has to wait. */
static double play(const Gpu *asked) {
    double wait = 0, t = now();
    pthread_mutex_lock(&lock);
    for (int at = 0; at < event_count; at++) {
        Event *event = &events[at];
        Gpu *gpu = &gpus[event->gpu];
        if (event->done || event->at > t || !strcmp(event->what, "xid") || (!strcmp(event->what, "block") && gpu != asked))
            continue;
        event->done = 1;
        if (!strcmp(event->what, "block"))
            wait = (double)event->value;
        else if (!strcmp(event->what, "error"))
            gpu->error = (int)event->value;
        else if (!strcmp(event->what, "proc"))
            hold(gpu, (unsigned int)event->value, event->more);
        for (int meter = 0; meter < METERS; meter++)
            if (!strcmp(event->what, METER_NAMES[meter]))
                gpu->meter[meter] = event->value;
    }
    for (int at = 0; at < MAX_GPUS; at++) {
        FILE *file = gpus[at].file[0] ? fopen(gpus[at].file, "r") : NULL;
        if (file && fscanf(file, "%lld", &gpus[at].meter[USED]) != 1)
            gpus[at].meter[USED] = 0;
        if (file)
            fclose(file);
    }
    pthread_mutex_unlock(&lock);
    return wait;
}

static int ask(Gpu *gpu) {
    double wait = play(gpu);
    if (wait > 0)
        usleep((useconds_t)(wait * 1e6));
    return gpu->error;
}

static int meter(Gpu *gpu, int which, long long *value) {
    int code = ask(gpu);
    if (code)
        return code;
    if (which <= UTIL && gpu->steps[which]) {
        int count = gpu->steps[which];
        *value = gpu->step[which][gpu->at[which] < count ? gpu->at[which]++ : count - 1];
    } else {
        *value = gpu->meter[which];
    }
    if (*value == IS_LOST)
        return gpu->error = GPU_IS_LOST;
    return *value == IS_NS ? NOT_SUPPORTED : SUCCESS;
}

static int text(Gpu *gpu, const char *value, char *into, unsigned int size) {
    int code = ask(gpu);
    if (code)
        return code;
    if (!strcmp(value, "-"))
        return NOT_SUPPORTED;
    snprintf(into, size, "%s", value);
    return SUCCESS;
}

static int number_of(Gpu *gpu, int which, unsigned int *into) {
    long long value = 0;
    int code = meter(gpu, which, &value);
    *into = (unsigned int)value;
    return code;
}

int nvmlInit_v2(void) { return read_file(); }
int nvmlInitWithFlags(unsigned int flags) { (void)flags; return read_file(); }
int nvmlShutdown(void) { return SUCCESS; }

int nvmlDeviceGetCount_v2(unsigned int *count) {
    *count = 0;
    for (int at = 0; at < MAX_GPUS; at++)
        *count += gpus[at].there && gpus[at].card < 0;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, Gpu **device) {
    if (index >= MAX_GPUS || !gpus[index].there || gpus[index].card >= 0)
        return INVALID_ARGUMENT;
    *device = &gpus[index];
    return SUCCESS;
}

int nvmlDeviceGetIndex(Gpu *gpu, unsigned int *index) { *index = (unsigned int)gpu->number; return SUCCESS; }
int nvmlDeviceGetName(Gpu *gpu, char *name, unsigned int size) { return text(gpu, gpu->name, name, size); }
int nvmlDeviceGetUUID(Gpu *gpu, char *uuid, unsigned int size) { return text(gpu, gpu->uuid, uuid, size); }

int nvmlDeviceGetMigMode(Gpu *gpu, unsigned int *current, unsigned int *pending) {
    *current = *pending = gpu->slices > 0;
    return gpu->slices ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetMaxMigDeviceCount(Gpu *gpu, unsigned int *count) { *count = gpu->slices ? 7 : 0; return SUCCESS; }

int nvmlDeviceGetMigDeviceHandleByIndex(Gpu *gpu, unsigned int index, Gpu **slice) {
    for (int at = 0; at < MAX_GPUS; at++)
        if (gpus[at].there && gpus[at].card == gpu->number && index-- == 0) {
            *slice = &gpus[at];
            return SUCCESS;
        }
    return 6; /* not found */
}

int nvmlDeviceGetGpuInstanceId(Gpu *gpu, unsigned int *id) { *id = (unsigned int)gpu->gi; return SUCCESS; }
int nvmlDeviceGetComputeInstanceId(Gpu *gpu, unsigned int *id) { *id = (unsigned int)gpu->ci; return SUCCESS; }

int nvmlDeviceGetMemoryInfo_v2(Gpu *gpu, Memory2 *memory) {
    long long used = 0;
    int code = meter(gpu, USED, &used);
    if (code == SUCCESS) {
        memory->total = gpu->total;
        memory->reserved = gpu->reserved;
        memory->used = (unsigned long long)used;
        memory->free = gpu->total - gpu->reserved - memory->used;
    }
    return code;
}

int nvmlDeviceGetMemoryInfo(Gpu *gpu, Memory *memory) {
    Memory2 two = {0};
    int code = nvmlDeviceGetMemoryInfo_v2(gpu, &two);
    memory->total = two.total;
    memory->free = two.free;
    memory->used = two.used + two.reserved;
    return code;
}

int nvmlDeviceGetUtilizationRates(Gpu *gpu, Utilization *rates) {
    rates->memory = 1;
    return number_of(gpu, UTIL, &rates->gpu);
}

int nvmlDeviceGetPowerUsage(Gpu *gpu, unsigned int *milliwatts) { return number_of(gpu, POWER, milliwatts); }

int nvmlDeviceGetPcieThroughput(Gpu *gpu, int counter, unsigned int *rate) {
    return number_of(gpu, counter ? RX : TX, rate); /* NVML_PCIE_UTIL_TX_BYTES is 0 */
}

int nvmlDeviceGetCurrentClocksThrottleReasons(Gpu *gpu, unsigned long long *reasons) {
    unsigned int value = 0;
    int code = number_of(gpu, THROTTLE, &value);
    *reasons = value;
    return code;
}

int nvmlDeviceGetTotalEccErrors(Gpu *gpu, int type, int counter, unsigned long long *count) {
    unsigned int value = 0;
    int code = number_of(gpu, ECC, &value);
    (void)type, (void)counter;
    *count = value;
    return code;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Gpu *gpu, unsigned int *count, Process *into) {
    int code = ask(gpu), room = (int)*count;
    if (code)
        return code;
    *count = (unsigned int)gpu->processes;
    if (gpu->processes > room)
        return INSUFFICIENT_SIZE;
    for (int at = 0; at < gpu->processes; at++) {
        into[at].pid = gpu->process[at].pid;
        into[at].bytes = (unsigned long long)gpu->process[at].bytes; /* -1: not available */
    }
    return SUCCESS;
}

/* Asked once before a start; from the environment of the process: FAKE_FABRIC state, FAKE_CC "90", FAKE_NVLINK pairs. */
static long setting(const char *name, long usual) { const char *text = getenv(name); return text ? atol(text) : usual; }
int nvmlSystemGetDriverVersion(char *into, unsigned int size) { snprintf(into, size, "570.86.10"); return SUCCESS; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 12080; return SUCCESS; }
int nvmlDeviceGetCudaComputeCapability(Gpu *gpu, int *major, int *minor) {
    long value = setting("FAKE_CC", 90);
    *major = (int)(value / 10), *minor = (int)(value % 10);
    return ask(gpu);
}
int nvmlDeviceGetPersistenceMode(Gpu *gpu, unsigned int *mode) { *mode = 1; return ask(gpu); }
typedef struct { unsigned char cluster[16]; int status; unsigned int clique; unsigned char state; } Fabric;
int nvmlDeviceGetGpuFabricInfo(Gpu *gpu, Fabric *info) {
    info->state = (unsigned char)setting("FAKE_FABRIC", 0);
    return ask(gpu);
}
int nvmlDeviceGetP2PStatus(Gpu *one, Gpu *two, int index, int *status) {
    (void)index;
    *status = one->number + two->number < setting("FAKE_NVLINK", 0) ? 0 : 4;
    return ask(one);
}

int nvmlEventSetCreate(void **set) { *set = &events; return SUCCESS; }
int nvmlEventSetFree(void *set) { (void)set; return SUCCESS; }
int nvmlDeviceRegisterEvents(Gpu *gpu, unsigned long long types, void *set) {
    (void)types, (void)set;
    return gpu->card >= 0 ? NOT_SUPPORTED : SUCCESS;
}

int nvmlEventSetWait_v2(void *set, EventData *data, unsigned int milliseconds) {
    double end = now() + milliseconds / 1000.0;
    (void)set;
    do {
        for (int at = 0; at < event_count; at++)
            if (!events[at].done && !strcmp(events[at].what, "xid") && events[at].at <= now()) {
                events[at].done = 1;
                data->device = &gpus[events[at].gpu];
                data->type = XID_EVENT;
                data->data = (unsigned long long)events[at].value;
                return SUCCESS;
            }
        usleep(20000);
    } while (now() < end);
    return TIMEOUT;
}

const char *nvmlErrorString(int code) {
    switch (code) {
    case NOT_SUPPORTED: return "Not Supported";
    case 9: return "Driver Not Loaded";
    case GPU_IS_LOST: return "GPU is lost";
    case 999: return "Unknown Error";
    default: return "an error of the stand-in";
    }
}
