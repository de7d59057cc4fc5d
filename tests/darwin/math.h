/* What the kernels use of Darwin's math.h, for a check without its SDK. */
#define INFINITY __builtin_inff()
#define NAN      __builtin_nanf("")
float  fabsf(float), fmaf(float, float, float), sqrtf(float), rintf(float), roundf(float), copysignf(float, float), floorf(float), ceilf(float);
float  ldexpf(float, int), expf(float), logf(float), powf(float, float), truncf(float), exp2f(float), frexpf(float, int *);
double fabs(double), sqrt(double), floor(double), rint(double), exp(double), log(double), pow(double, double), ldexp(double, int);
double round(double), frexp(double, int *);
