import { Namespace } from './kubectl.ts';
import { type Pod, untilReady } from './pods.ts';

const SPACE = new Namespace('rms-killer');

/** Sends a signal to the Node process of a pod, which it knows by the pod in the name of its cgroup. */
const SEND = `
const { readdirSync, readFileSync } = require('node:fs');
const [uid, signal] = process.argv.slice(-2);
const read = (pid, file) => { try { return readFileSync('/proc/' + pid + '/' + file, 'utf8'); } catch { return ''; } };
const isOurs = (pid) => {
  const cgroup = read(pid, 'cgroup');
  const isOfPod = cgroup.includes('pod' + uid) || cgroup.includes('pod' + uid.replaceAll('-', '_'));
  return isOfPod && read(pid, 'cmdline').includes('/main.ts');
};
const pids = readdirSync('/proc').filter((name) => /^\\d+$/.test(name)).filter(isOurs);
for (const pid of pids) process.kill(Number(pid), signal);
console.log(pids.length);
`;

/** Starts a pod that sees the processes of its node: process 1 of a pod ignores signals of the pod itself. */
export async function startKiller(image: string): Promise<void> {
  await SPACE.apply(
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: SPACE.name } },
    {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'killer', namespace: SPACE.name },
      spec: {
        hostPID: true,
        terminationGracePeriodSeconds: 1,
        containers: [
          {
            name: 'node',
            image,
            command: ['node', '-e', 'setInterval(() => {}, 60_000)'],
            securityContext: { runAsUser: 0 },
          },
        ],
      },
    },
  );
  await untilReady(SPACE);
}

export async function signal(pod: Pod, name: 'SIGKILL' | 'SIGSTOP'): Promise<void> {
  const command = ['node', '-e', SEND, pod.metadata.uid, name];
  const count = (await SPACE.kubectl('exec', 'killer', '--', ...command)).trim();
  if (count !== '1') throw new Error(`${count} processes of ${pod.metadata.name}`);
}

export async function stopKiller(): Promise<void> {
  await SPACE.kubectl('delete', 'namespace', SPACE.name, '--wait=false');
}
