import { Namespace } from './kubectl.ts';
import { pods, untilReady } from './pods.ts';

/** A namespace that is not ours. */
export const ELSEWHERE = new Namespace('rms-elsewhere');

/** A pod of another namespace, that listens on 8080 and runs nothing. */
export async function startStranger(image: string): Promise<void> {
  const listen =
    "require('node:http').createServer((_, res) => { console.log('asked'); res.end(); }).listen(8080)";
  await ELSEWHERE.apply(
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: ELSEWHERE.name } },
    {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'stranger', namespace: ELSEWHERE.name },
      spec: {
        terminationGracePeriodSeconds: 1,
        containers: [{ name: 'node', image, command: ['node', '-e', listen] }],
      },
    },
  );
  await untilReady(ELSEWHERE);
}

export async function addressOfStranger(): Promise<string> {
  const [pod] = await pods(ELSEWHERE);
  return pod?.status.podIP ?? '';
}
