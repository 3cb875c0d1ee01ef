/* A stand-in for NVIDIA's management library: as much of its interface as tells of GPUs that are cut into slices (MIG).
 *
 * It answers from devices.txt next to it, read again by each nvmlInit:
 *
 *     gpu UUID BUS MIG NAME...          MIG: -1 for a device that cannot be cut, else 0 or 1
 *     slice GPU INSTANCE UUID MIB NAME...
 *     process GPU PID
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OK 0
#define INVALID_ARGUMENT 2
#define NOT_SUPPORTED 3
#define NOT_FOUND 6
#define INSUFFICIENT_SIZE 7
#define MOST 64

typedef struct {
  int slice, gpu, instance, mig;
  unsigned long long mebibytes;
  char uuid[96], bus[32], name[96];
} Device;

static Device devices[MOST];
static int pids[MOST][2];
static int device_count, pid_count;

static void read_devices(FILE *file) {
  char line[512];
  device_count = pid_count = 0;
  while (fgets(line, sizeof line, file)) {
    Device *d = &devices[device_count];
    memset(d, 0, sizeof *d);
    line[strcspn(line, "\n")] = 0;
    if (sscanf(line, "gpu %95s %31s %d %95[^\n]", d->uuid, d->bus, &d->mig, d->name) == 4) {
      d->mebibytes = 81920;
      device_count++;
    } else if (sscanf(line, "slice %d %d %95s %llu %95[^\n]", &d->gpu, &d->instance, d->uuid, &d->mebibytes, d->name) == 5) {
      d->slice = 1;
      device_count++;
    } else if (sscanf(line, "process %d %d", &pids[pid_count][0], &pids[pid_count][1]) == 2) {
      pid_count++;
    }
  }
}

static int nth(int slice, int gpu, unsigned index, Device **found) {
  for (int i = 0; i < device_count; i++) {
    Device *d = &devices[i];
    if (d->slice == slice && (!slice || d->gpu == gpu) && index-- == 0) {
      *found = d;
      return OK;
    }
  }
  return slice ? NOT_FOUND : INVALID_ARGUMENT;
}

static int number_of(Device *wanted) {
  int number = 0;
  for (Device *d = devices; d != wanted; d++) number += !d->slice;
  return number;
}

static int text(char *to, unsigned size, const char *from) {
  if (strlen(from) >= size) return INSUFFICIENT_SIZE;
  strcpy(to, from);
  return OK;
}

int nvmlInitWithFlags(unsigned flags) {
  (void)flags;
  Dl_info here;
  char path[4096];
  if (!dladdr((void *)nvmlInitWithFlags, &here)) return 999;
  snprintf(path, sizeof path, "%s", here.dli_fname);
  strcpy(strrchr(path, '/') + 1, "devices.txt");
  FILE *file = fopen(path, "r");
  if (!file) return 9; /* the driver is not loaded */
  read_devices(file);
  fclose(file);
  return OK;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int status) { (void)status; return "stand-in"; }
int nvmlSystemGetDriverVersion(char *to, unsigned size) { return text(to, size, "580.159.03"); }
int nvmlSystemGetCudaDriverVersion(int *to) { *to = 13000; return OK; }
int nvmlSystemGetCudaDriverVersion_v2(int *to) { *to = 13000; return OK; }

int nvmlDeviceGetCount_v2(unsigned *to) {
  *to = 0;
  for (int i = 0; i < device_count; i++) *to += !devices[i].slice;
  return OK;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **to) { return nth(0, 0, index, to); }
int nvmlDeviceGetName(Device *d, char *to, unsigned size) { return text(to, size, d->name); }
int nvmlDeviceGetUUID(Device *d, char *to, unsigned size) { return text(to, size, d->uuid); }
int nvmlDeviceGetMemoryInfo(Device *d, unsigned long long *to) {
  to[0] = to[1] = d->mebibytes << 20;
  to[2] = 0;
  return OK;
}

typedef struct {
  char legacy[16];
  unsigned domain, bus, device, pci, subsystem;
  char id[32];
} PciInfo;
int nvmlDeviceGetPciInfo_v3(Device *d, PciInfo *to) {
  memset(to, 0, sizeof *to);
  return d->slice ? NOT_SUPPORTED : text(to->id, sizeof to->id, d->bus);
}

int nvmlDeviceGetMigMode(Device *d, unsigned *now, unsigned *pending) {
  if (d->slice || d->mig < 0) return NOT_SUPPORTED;
  *now = *pending = (unsigned)d->mig;
  return OK;
}
int nvmlDeviceGetMaxMigDeviceCount(Device *d, unsigned *to) {
  *to = !d->slice && d->mig >= 0 ? 7 : 0;
  return OK;
}
int nvmlDeviceGetMigDeviceHandleByIndex(Device *d, unsigned index, Device **to) {
  return nth(1, number_of(d), index, to);
}
int nvmlDeviceGetGpuInstanceId(Device *d, unsigned *to) {
  *to = (unsigned)d->instance;
  return d->slice ? OK : NOT_SUPPORTED;
}

typedef struct {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
} Process;
int nvmlDeviceGetComputeRunningProcesses_v3(Device *d, unsigned *count, Process *to) {
  int gpu = d->slice ? d->gpu : number_of(d);
  unsigned found = 0;
  for (int i = 0; i < pid_count; i++) found += pids[i][0] == gpu;
  if (*count < found) {
    *count = found;
    return INSUFFICIENT_SIZE;
  }
  *count = 0;
  for (int i = 0; i < pid_count; i++)
    if (pids[i][0] == gpu) to[(*count)++] = (Process){(unsigned)pids[i][1], 0, 0, 0};
  return OK;
}
