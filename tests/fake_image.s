# The image of kernels that tests/fake_cuda.c takes.
    .section .rodata
    .globl gpu_image
gpu_image:
    .ascii "fake kernels"
    .section .note.GNU-stack, "", %progbits
