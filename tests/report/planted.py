"""Secrets as they stand in logs, and look-alikes that a diagnosis needs. All values are made up."""

from __future__ import annotations

_HF = "hf_" + "QwErTyUiOpAsDfGhJkLzXcVbNm12345678"
_SK = "sk-" + "proj-Zx9Yw8Vu7Ts6Rq5Po4Nm3Lk2"
_GH = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
_AWS = "AKIA" + "Q3EXAMPLE7J2KZWX"
_GCP = "AIza" + "SyD3xAmPl3Th1s1sN0tAr3alK3y0fAny"
_JWT = "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiJhY21lIn0.c2lnbmF0dXJlLW9mLWEtdG9rZW4"
_HEAD = "(EngineCore_DP0 pid=4211) ERROR 12-01 00:00:07 [core.py:9] "

#: (what must not be seen, the line in which it stands)
SECRETS: tuple[tuple[str, str], ...] = (
    (_HF, f"HF_TOKEN={_HF} vllm serve org/model"),
    (
        "hf_" + "aaaaBBBBccccDDDDeeee1111",
        f"{_HEAD}401 Client Error for token hf_" + "aaaaBBBBccccDDDDeeee1111 (Request ID: Root=1-65)",
    ),
    (_SK, f"openai.AuthenticationError: Incorrect API key provided: {_SK}."),
    ("sk-ant-" + "api03-QQ11WW22EE33RR44", "export ANTHROPIC_API_KEY=sk-ant-" + "api03-QQ11WW22EE33RR44"),
    (_GH, f"git clone https://{_GH}@github.com/acme/private.git"),
    ("github_pat_" + "11ABCDEFG0aBcDeFgHiJkL_mNoP", "GH: github_pat_" + "11ABCDEFG0aBcDeFgHiJkL_mNoP"),
    (
        "glpat-" + "xYz123AbC456dEf789Gh",
        "pip install --extra-index-url https://__token__:glpat-" + "xYz123AbC456dEf789Gh@gitlab.acme.com/simple x",
    ),
    (_AWS, f"botocore.exceptions.ClientError: The AWS Access Key Id {_AWS} you provided does not exist"),
    ("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
    (
        "FwoGZXIvYXdzEJr//////////wEaDExampleSession",
        'aws_session_token = "FwoGZXIvYXdzEJr//////////wEaDExampleSession"',
    ),
    (_GCP, f"google.api_core.exceptions.Forbidden: 403 POST https://x.googleapis.com/v1?key={_GCP}: denied"),
    ("ya29.a0AfB_byExampleOauthToken123", "gcloud token: ya29.a0AfB_byExampleOauthToken123"),
    (
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq==",
        "DefaultEndpointsProtocol=https;AccountName=acme;AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq==;",
    ),
    (
        "kY3nZq0sasSignature%2Fabc%3D",
        "https://acme.blob.core.windows.net/models/w.bin?sv=2024&se=2025&sig=kY3nZq0sasSignature%2Fabc%3D",
    ),
    (
        "8f3a1c0123amzsignature",
        "GET https://acme-models.s3.amazonaws.com/w?X-Amz-Expires=60&X-Amz-Signature=8f3a1c0123amzsignature HTTP/1.1",
    ),
    (
        "AKIDcredential/20251201/eu-west-1",
        "GET https://acme-models.s3.amazonaws.com/w?X-Amz-Credential=AKIDcredential/20251201/eu-west-1&x=1",
    ),
    (_JWT, f"curl -H 'Authorization: Bearer {_JWT}' http://127.0.0.1:8000/v1/models"),
    ("T0k3nOfTheGateway9", 'headers: {"Authorization": "Bearer T0k3nOfTheGateway9", "Accept": "*/*"}'),
    ("dXNlcjpzM2NyZXQ=", "Authorization: Basic dXNlcjpzM2NyZXQ="),
    ("s3cr3tBasic", "pip config: index-url = https://builder:s3cr3tBasic@pypi.acme.internal/simple"),
    ("r3d1sPass", "ray start --head --redis-password r3d1sPass --port 6379"),
    ("p4ssw0rd!", "redis.exceptions.ConnectionError: Error 111 connecting to redis://:p4ssw0rd!@cache-7:6379/0"),
    ("my-server-key-1", "vllm serve org/model --api-key my-server-key-1 --port 8000"),
    ("second-key-2", "vllm serve org/model --api-key first-key-1 second-key-2 --port 8000"),
    (
        "keyInAList77",
        "(APIServer pid=1) INFO 12-01 00:00:00 [utils.py:1] non-default args: {'api_key': ['keyInAList77'], 'port': 8000}",
    ),
    ("keyWithEquals88", "docker run vllm/vllm-openai:v0.11.0 --model org/model --api-key=keyWithEquals88"),
    ("wordInPopen99", "Popen(['vllm', 'serve', 'org/model', '--api-key', 'wordInPopen99'])"),
    ("hubTokenOption5", "vllm serve org/model --hf-token hubTokenOption5"),
    ("local5a8b2c91e0f3d4", "WANDB_API_KEY=local5a8b2c91e0f3d4 python train.py"),
    (
        "nvapi-" + "aBcDeFgHiJkLmNoPqRsTuVwXyZ",
        "docker login nvcr.io -u '$oauthtoken' -p nvapi-" + "aBcDeFgHiJkLmNoPqRsTuVwXyZ",
    ),
    ("xoxb-" + "123456789012-abcdefGHIJKL", "SLACK_TOKEN: xoxb-" + "123456789012-abcdefGHIJKL"),
    ("db-hunter2", '    "DB_PASSWORD": "db-hunter2",'),
    ("yamlSecretValue3", "  MY_SERVICE_TOKEN: yamlSecretValue3"),
    ("escapedJson4", '{"log":"{\\"api_key\\": \\"escapedJson4\\"}\\n","stream":"stderr"}'),
    ("manifestValue6", "- name: HUGGING_FACE_HUB_TOKEN\n  value: manifestValue6"),
    (
        "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj",
        "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj\n-----END PRIVATE KEY-----",
    ),
    (
        "MIIBVgIBADANBgkqhkiG9w0BAQEFAASCAUAw",
        '"private_key": "-----BEGIN PRIVATE KEY-----\\nMIIBVgIBADANBgkqhkiG9w0BAQEFAASCAUAw\\n-----END PRIVATE KEY-----\\n"',
    ),
    ("admin:curlpass1", "curl -u admin:curlpass1 http://127.0.0.1:8000/metrics"),
    ("mariselle", "FileNotFoundError: [Errno 2] No such file or directory: '/home/mariselle/.cache/x'"),
    (
        "bgrunwald",
        '  File "/Users/bgrunwald/v/lib/python3.11/site-packages/vllm/entrypoints/cli/main.py", line 5, in main',
    ),
    ("tkowalski", "OSError: C:\\Users\\tkowalski\\AppData\\Local\\Temp\\x: not found"),
    ("hyamamoto", "torch._inductor.exc: /tmp/torchinductor_hyamamoto/ab/cabc.py"),
    ("pvandermeer", "pvandermeer@gpu-node-42:~/serve$ vllm serve org/model"),
    ("gpu-node-42", "gpu-node-42:4211:4390 [0] NCCL INFO Bootstrap : Using eth0:127.0.0.1<0>"),
    ("jane.doe@acme-corp.com", "Contact jane.doe@acme-corp.com for access to the gated repo"),
    (
        "trainer17.prod.acme.internal",
        "[W socket.cpp:436] The client socket has failed to connect to [trainer17.prod.acme.internal]:29500 (errno: 110)",
    ),
    ("ray-head-3", "distributed_init_method=tcp://ray-head-3:29500 world_size=4"),
    ("registry.acme-corp.com", "Failed to pull image registry.acme-corp.com/ml/vllm:v0.11.0"),
    ("dgx-a100-07", "Dec 01 09:58:12 dgx-a100-07 vllm[4211]: INFO 12-01 09:58:12 [core.py:9] x"),
    ("ip-10-31-7-19.eu-west-1.compute.internal", "Node ip-10-31-7-19.eu-west-1.compute.internal is not ready"),
    ("10.31.7.19", "(RayWorkerWrapper pid=123, ip=10.31.7.19) ERROR 12-01 00:00:07 [worker.py:9] x"),
    ("203.0.113.77", 'INFO:     203.0.113.77:51512 - "POST /v1/chat/completions HTTP/1.1" 200 OK'),
    (
        "2001:db8:85a3::8a2e:370:7334",
        "socket.error: [Errno 113] cannot connect to [2001:db8:85a3::8a2e:370:7334]:29500",
    ),
    ("0c:42:a1:5e:9b:7f", "mlx5_0: link/ether 0c:42:a1:5e:9b:7f brd ff:ff:ff:ff:ff:ff"),
    ("8d2f9a10-1111-2222-3333-444455556666", "GPU 0: NVIDIA L4 (UUID: GPU-8d2f9a10-1111-2222-3333-444455556666)"),
    ("1c3e5a70-9b2d-5f4e-8a6c-0d1e2f3a4b5c", "CUDA_VISIBLE_DEVICES=MIG-1c3e5a70-9b2d-5f4e-8a6c-0d1e2f3a4b5c"),
    (
        "/mnt/nfs/acme-secret/llm-v7",
        "Error retrieving safetensors: Repo id must be in the form 'repo_name': '/mnt/nfs/acme-secret/llm-v7', model='/mnt/nfs/acme-secret/llm-v7'",
    ),
    (
        "/data/tenant-blue/ckpt-900",
        "SafetensorError: /data/tenant-blue/ckpt-900/model-00001-of-00004.safetensors: header too large",
    ),
    (
        "Who pays the ransom",
        "INFO 12-01 00:00:09 [logger.py:39] Received request cmpl-1: prompt: 'Who pays the ransom, \\'now\\'?', params: SamplingParams(n=1), prompt_token_ids: [1, 887, 31337], lora_request: None.",
    ),
    (
        "31337, 4242",
        "SchedulerOutput(scheduled_new_reqs=[NewRequestData(req_id=chatcmpl-1,prompt_token_ids=[31337, 4242],mm_inputs=[])])",
    ),
    (
        "my medical record",
        "[{'type': 'x', 'loc': ('body',), 'input': {'messages': [{'role': 'user', 'content': 'my medical record says'}], 'model': 'm'}}]",
    ),
)

#: (what must stay, the line in which it stands)
LOOKALIKES: tuple[tuple[str, str], ...] = (
    ("0.11.1rc2.dev123+g3f2a9c81d", "vLLM API server version 0.11.1rc2.dev123+g3f2a9c81d"),
    ("3f2a9c81d0ab4c5d6e7f8091a2b3c4d5e6f70812", "vLLM is built from commit 3f2a9c81d0ab4c5d6e7f8091a2b3c4d5e6f70812"),
    ("sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "image vllm/vllm-openai@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"),
    ("snapshots/b968826d9c46dd6066d109eabc6255188de91218", "/root/.cache/huggingface/hub/models--Qwen--Qwen3-8B/snapshots/b968826d9c46dd6066d109eabc6255188de91218/config.json"),
    ("torch_compile_cache/a1b2c3d4e5/rank_0_0", "Using cache directory: /root/.cache/vllm/torch_compile_cache/a1b2c3d4e5/rank_0_0/backbone for vLLM's torch.compile"),
    ("sm_90a", "ptxas fatal : Unsupported .target sm_90a"),
    ("(4096, 11008)", "shape mismatch: expected (4096, 11008)"),
    ("torch.Size([2, 17, 151936])", "got torch.Size([2, 17, 151936])"),
    ("0.0.0.0:8000", "Starting vLLM API server 0 on http://0.0.0.0:8000"),
    ("127.0.0.1:29500", "distributed_init_method=tcp://127.0.0.1:29500"),
    ("localhost", "curl http://localhost:8000/health"),
    ("::1", "bind ::1 port 8000"),
    ("meta-llama/Llama-3.1-8B-Instruct", "Starting to load model meta-llama/Llama-3.1-8B-Instruct..."),
    ("Qwen/Qwen3-30B-A3B-FP8", "vllm serve Qwen/Qwen3-30B-A3B-FP8 --tensor-parallel-size 2"),
    ("https://huggingface.co/meta-llama/Llama-3.1-8B", "401 Client Error: Unauthorized for url: https://huggingface.co/meta-llama/Llama-3.1-8B/resolve/main/config.json"),
    ("https://github.com/vllm-project/vllm/issues/1488", "see https://github.com/vllm-project/vllm/issues/1488"),
    ("vllm/v1/worker/gpu_model_runner.py", 'File "/usr/lib/python3/dist-packages/vllm/v1/worker/gpu_model_runner.py", line 2610, in _dummy_sampler_run'),
    ("line 2610", 'File "/home/someone/v/lib/python3.11/site-packages/vllm/v1/worker/gpu_model_runner.py", line 2610, in f'),
    ("[gpu_model_runner.py:1843]", "(EngineCore_DP0 pid=4211) INFO 12-01 00:00:07 [gpu_model_runner.py:1843] Model loading took 1.5 GiB"),
    ("pid=4211", "(Worker_TP1 pid=4211) INFO 12-01 00:00:07 [x.py:1] y"),
    ("12.4.5.8", "nvidia-cublas-cu12==12.4.5.8"),
    ("10.3.5.147", "nvidia-curand-cu12        10.3.5.147               pypi_0    pypi"),
    ("8.9.2.26", "cuDNN version: 8.9.2.26"),
    ("libcudnn.so.8.9.7.29", "Probably one of the following: /usr/lib/x86_64-linux-gnu/libcudnn.so.8.9.7.29"),
    ("550.54.15", "Nvidia driver version: 550.54.15"),
    ("CUDA 12.4", "NCCL version 2.21.5+cuda12.4, CUDA 12.4 driver"),
    ("commId 0x3fa8c1d2e4b5a697", "NCCL INFO comm 0x55d0 rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 2000 commId 0x3fa8c1d2e4b5a697 - Init COMPLETE"),
    ("00000000:17:00.0", "|   0  NVIDIA L4      On  | 00000000:17:00.0 Off |                    0 |"),
    ("09:58:12", "INFO 12-01 09:58:12 [core.py:9] x"),
    ("2025-12-01T09:58:12.123456Z", "2025-12-01T09:58:12.123456Z INFO 12-01 09:58:12 [core.py:9] x"),
    ("# GPU blocks: 27123", "# GPU blocks: 27123, # CPU blocks: 2048"),
    ("max_num_batched_tokens=8192", "SchedulerConfig(max_num_batched_tokens=8192, max_num_seqs=256)"),
    ("eos_token_id=151645", "eos_token_id=151645, pad_token='<|endoftext|>'"),
    ("skip_tokenizer_init=False", "skip_tokenizer_init=False, trust_remote_code=True, kv_cache_dtype=auto"),
    ("HF_HUB_DISABLE_IMPLICIT_TOKEN=1", "HF_HUB_DISABLE_IMPLICIT_TOKEN=1 TOKENIZERS_PARALLELISM=false"),
    ("num_key_value_heads=8", "LlamaConfig(num_key_value_heads=8, sort_keys=True)"),
    ("std::runtime_error", "terminate called after throwing an instance of 'std::runtime_error' c10::Error at::native"),
    ("hf_overrides={}", "hf_overrides={}, hf_config_path=None, hf_transfer hf_hub_download"),
    ("NVIDIA H100 80GB HBM3", "GPU 0: NVIDIA H100 80GB HBM3"),
    ("api_key=None", "api_key=None, hf_token=None, use_auth_token=True"),
    ("/dev/shm", "OSError: [Errno 28] No space left on device: '/dev/shm/psm_1a2b'"),
    ("torch.distributed.DistBackendError", "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2021, unhandled system error"),
    ("chatcmpl-0f3a9d27c5b84e61", "Added request chatcmpl-0f3a9d27c5b84e61."),
    ("threading.local", "AttributeError: 'threading.local' object has no attribute 'x'"),
)  # fmt: skip
