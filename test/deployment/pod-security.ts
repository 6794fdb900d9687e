import { z } from 'zod';
import type { Manifest } from '../../deploy/check/render.ts';

/** The kinds of volumes that the level `restricted` admits. */
const VOLUMES = [
  'configMap',
  'csi',
  'downwardAPI',
  'emptyDir',
  'ephemeral',
  'persistentVolumeClaim',
  'projected',
  'secret',
];
const SECCOMP = ['RuntimeDefault', 'Localhost'];
const SYSCTLS = [
  'kernel.shm_rmid_forced',
  'net.ipv4.ip_local_port_range',
  'net.ipv4.ip_unprivileged_port_start',
  'net.ipv4.tcp_syncookies',
  'net.ipv4.ping_group_range',
];

const securityShape = z.looseObject({
  privileged: z.boolean().optional(),
  allowPrivilegeEscalation: z.boolean().optional(),
  runAsNonRoot: z.boolean().optional(),
  runAsUser: z.number().optional(),
  procMount: z.string().optional(),
  capabilities: z
    .object({ add: z.array(z.string()).default([]), drop: z.array(z.string()).default([]) })
    .default({ add: [], drop: [] }),
  seccompProfile: z.looseObject({ type: z.string() }).optional(),
  seLinuxOptions: z.looseObject({}).optional(),
  appArmorProfile: z.looseObject({ type: z.string() }).optional(),
  windowsOptions: z.looseObject({ hostProcess: z.boolean().optional() }).optional(),
  sysctls: z.array(z.looseObject({ name: z.string() })).default([]),
});

const probeShape = z
  .looseObject({
    httpGet: z.looseObject({ host: z.string().optional() }).optional(),
    tcpSocket: z.looseObject({ host: z.string().optional() }).optional(),
  })
  .optional();

const containerShape = z.looseObject({
  name: z.string(),
  securityContext: securityShape.prefault({}),
  ports: z.array(z.looseObject({ hostPort: z.number().optional() })).default([]),
  startupProbe: probeShape,
  livenessProbe: probeShape,
  readinessProbe: probeShape,
});

const podShape = z.looseObject({
  hostNetwork: z.boolean().optional(),
  hostPID: z.boolean().optional(),
  hostIPC: z.boolean().optional(),
  securityContext: securityShape.prefault({}),
  initContainers: z.array(containerShape).default([]),
  containers: z.array(containerShape),
  volumes: z.array(z.looseObject({ name: z.string() })).default([]),
});

type Security = z.infer<typeof securityShape>;

/**
 * Why the Pod Security level `restricted` denies the pods of an object, one line per control. Empty if it admits them or
 * if there are none.
 *
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/
 */
export function denialsOf(object: Manifest): string[] {
  const template = z
    .looseObject({ spec: z.looseObject({ template: z.looseObject({ spec: podShape }) }) })
    .safeParse(object);
  if (!template.success) return [];
  const pod = template.data.spec.template.spec;
  const containers = [...pod.initContainers, ...pod.containers];
  const found = [
    ...podDenials(pod),
    ...containers.flatMap((one) => containerDenials(one, pod.securityContext)),
  ];
  return found.map((denial) => `${object.kind} ${object.metadata.name}: ${denial}`);
}

function podDenials(pod: z.infer<typeof podShape>): string[] {
  const found: string[] = [];
  if (pod.hostNetwork || pod.hostPID || pod.hostIPC) found.push('host namespaces');
  for (const { name, ...source } of pod.volumes) {
    if (!Object.keys(source).every((type) => VOLUMES.includes(type))) found.push(`volume ${name}`);
  }
  const { sysctls } = pod.securityContext;
  if (!sysctls.every(({ name }) => SYSCTLS.includes(name))) found.push('sysctls');
  return [...found, ...commonDenials(pod.securityContext)];
}

function containerDenials(one: z.infer<typeof containerShape>, ofPod: Security): string[] {
  const own = one.securityContext;
  const found = commonDenials(own);
  if (own.privileged) found.push('privileged');
  if (own.allowPrivilegeEscalation !== false) found.push('allowPrivilegeEscalation');
  if (!own.capabilities.drop.includes('ALL')) found.push('capabilities are not dropped');
  if (own.capabilities.add.some((name) => name !== 'NET_BIND_SERVICE')) found.push('capabilities');
  if ((own.procMount ?? 'Default') !== 'Default') found.push('procMount');
  if ((own.runAsNonRoot ?? ofPod.runAsNonRoot) !== true) found.push('runAsNonRoot');
  const seccomp = own.seccompProfile ?? ofPod.seccompProfile;
  if (!seccomp || !SECCOMP.includes(seccomp.type)) found.push('seccompProfile');
  if (one.ports.some(({ hostPort }) => hostPort)) found.push('hostPort');
  const probes = [one.startupProbe, one.livenessProbe, one.readinessProbe];
  if (probes.some((probe) => probe?.httpGet?.host || probe?.tcpSocket?.host))
    found.push('host of a probe');
  return found.map((denial) => `${one.name}: ${denial}`);
}

/** Denials that apply to pods and containers. */
function commonDenials(own: Security): string[] {
  const found: string[] = [];
  if (own.runAsUser === 0) found.push('runAsUser');
  if (own.seLinuxOptions) found.push('seLinuxOptions');
  if (own.appArmorProfile?.type === 'Unconfined') found.push('appArmorProfile');
  if (own.windowsOptions?.hostProcess) found.push('hostProcess');
  return found;
}
