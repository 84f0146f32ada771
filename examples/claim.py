"""A training that waits for its turn on a GPU: start it in as many terminals as you like."""

import rota

claim = rota.claim(gpus=1)  # before CUDA is used; given back when the script ends, however it ends
weight = 0.0
for _ in range(100):  # with PyTorch: `model.to(claim.device)`, and so on
    weight -= 0.1 * 2 * (weight - 3.0)
print(f"trained on GPU {claim.indices}, CUDA_VISIBLE_DEVICES={claim.environment['CUDA_VISIBLE_DEVICES']}: {weight:.3f}")
