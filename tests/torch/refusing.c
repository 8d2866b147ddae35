/* Loaded before the CUDA runtime: as where the system does not let the driver pin. */
#include <stddef.h>

int cudaHostRegister(void* memory, size_t size, unsigned flags) {
  (void)memory, (void)size, (void)flags;
  return 304; /* cudaErrorOperatingSystem */
}
