/* A stand-in for NVIDIA's libnvidia-ml.so.1: plays what the file named by FAKE_NVML says.

   The file holds words, one statement a line:
     init CODE                        nvmlInit fails with CODE
     gpu INDEX NAME UUID TOTAL        a GPU; TOTAL in bytes; "-" instead of NAME, UUID: not supported
     used INDEX VALUE...              memory in use, one value a call, the last one stays
     util INDEX VALUE...              utilisation in percent, likewise
   A VALUE of NS answers "not supported", LOST answers "GPU is lost" from then on for every question. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUCCESS 0
#define INVALID_ARGUMENT 2
#define NOT_SUPPORTED 3
#define GPU_IS_LOST 15
#define MAX_GPUS 16
#define MAX_STEPS 64
#define IS_NS -1
#define IS_LOST -2

typedef struct {
    int there, lost, used_steps, util_steps, used_at, util_at;
    char name[96], uuid[96];
    unsigned long long total;
    long long used[MAX_STEPS], util[MAX_STEPS];
} Gpu;

typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned int gpu, memory; } Utilization;

static Gpu gpus[MAX_GPUS];

static int values(long long *into) {
    int count = 0;
    char *word;
    while (count < MAX_STEPS && (word = strtok(NULL, " \n")))
        into[count++] = !strcmp(word, "NS") ? IS_NS : !strcmp(word, "LOST") ? IS_LOST : atoll(word);
    return count;
}

static int read_file(void) {
    char line[4096];
    int code = SUCCESS;
    const char *path = getenv("FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file)
        return 9; /* driver not loaded */
    while (fgets(line, sizeof line, file)) {
        char *what = strtok(line, " \n");
        char *first = what ? strtok(NULL, " \n") : NULL;
        if (!first)
            continue;
        Gpu *gpu = &gpus[atoi(first) % MAX_GPUS];
        if (!strcmp(what, "init")) {
            code = atoi(first);
        } else if (!strcmp(what, "gpu")) {
            gpu->there = 1;
            snprintf(gpu->name, sizeof gpu->name, "%s", strtok(NULL, " \n"));
            snprintf(gpu->uuid, sizeof gpu->uuid, "%s", strtok(NULL, " \n"));
            gpu->total = strtoull(strtok(NULL, " \n"), NULL, 10);
        } else if (!strcmp(what, "used")) {
            gpu->used_steps = values(gpu->used);
        } else if (!strcmp(what, "util")) {
            gpu->util_steps = values(gpu->util);
        }
    }
    fclose(file);
    return code;
}

static int next(Gpu *gpu, const long long *steps, int count, int *at, long long *value) {
    if (gpu->lost)
        return GPU_IS_LOST;
    if (!count)
        return NOT_SUPPORTED;
    *value = steps[*at < count ? (*at)++ : count - 1];
    if (*value == IS_LOST) {
        gpu->lost = 1;
        return GPU_IS_LOST;
    }
    return *value == IS_NS ? NOT_SUPPORTED : SUCCESS;
}

static int text(Gpu *gpu, const char *value, char *into, unsigned int size) {
    if (gpu->lost)
        return GPU_IS_LOST;
    if (!strcmp(value, "-"))
        return NOT_SUPPORTED;
    snprintf(into, size, "%s", value);
    return SUCCESS;
}

int nvmlInit_v2(void) { return read_file(); }
int nvmlInitWithFlags(unsigned int flags) { (void)flags; return read_file(); }
int nvmlShutdown(void) { return SUCCESS; }

int nvmlDeviceGetCount_v2(unsigned int *count) {
    *count = 0;
    for (int at = 0; at < MAX_GPUS; at++)
        *count += gpus[at].there;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, Gpu **device) {
    if (index >= MAX_GPUS || !gpus[index].there)
        return INVALID_ARGUMENT;
    *device = &gpus[index];
    return SUCCESS;
}

int nvmlDeviceGetName(Gpu *gpu, char *name, unsigned int size) { return text(gpu, gpu->name, name, size); }
int nvmlDeviceGetUUID(Gpu *gpu, char *uuid, unsigned int size) { return text(gpu, gpu->uuid, uuid, size); }

int nvmlDeviceGetMemoryInfo(Gpu *gpu, Memory *memory) {
    long long used = 0;
    int code = next(gpu, gpu->used, gpu->used_steps, &gpu->used_at, &used);
    if (code == SUCCESS) {
        memory->total = gpu->total;
        memory->used = (unsigned long long)used;
        memory->free = gpu->total - memory->used;
    }
    return code;
}

int nvmlDeviceGetUtilizationRates(Gpu *gpu, Utilization *rates) {
    long long percent = 0;
    int code = next(gpu, gpu->util, gpu->util_steps, &gpu->util_at, &percent);
    if (code == SUCCESS) {
        rates->gpu = (unsigned int)percent;
        rates->memory = 1;
    }
    return code;
}

const char *nvmlErrorString(int code) { return code == 9 ? "Driver Not Loaded" : "an error of the stand-in"; }
