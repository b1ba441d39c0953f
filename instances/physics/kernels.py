"""What kernels of training compute and hold, where it does not follow from shapes."""

# Bytes of a number of sixteen bits and of one of thirty-two.
HALF, SINGLE = 2, 4
# Operations of attention's backward pass, as a multiple of the forward pass's: a fused kernel multiplies five times
# instead of twice, because it computes the scores again.
ATTENTION_BACKWARD = 2.5
# Bytes for the libraries that multiply matrices: 32 MiB for cuBLAS and 32 MiB for the layers that call it.
WORKSPACE_BYTES = 64 * 2**20
# Copies of all routed tokens while the experts of a layer run backward: their gradients before and after sorting and
# on both sides of the exchange; measured on three stages of DeepSeek-V2.
TOKEN_COPIES = 5
# What the backward pass of a measured layer holds for a moment, as a multiple of the bytes that the layer keeps:
# gradients, and what is made on the way. Published runs of one, two and four stages with 1 to 8 sequences hold as much.
OWN_MOMENT = 2
