import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { promisify } from 'node:util';
import { freePorts } from '../../deploy/local/free-ports.ts';

const run = promisify(execFile);
const MAX_BYTES = 16 * 1024 * 1024;

/** The namespace of the dev overlay. */
export const NAMESPACE = 'rms-dev';

/** Runs kubectl in the namespace, with the cluster of `KUBECONFIG`. @throws Error with what kubectl wrote. */
export async function kubectl(...args: readonly string[]): Promise<string> {
  const { stdout } = await run('kubectl', ['-n', NAMESPACE, ...args], { maxBuffer: MAX_BYTES });
  return stdout;
}

/** Creates or changes an object. */
export async function apply(object: unknown): Promise<void> {
  const child = spawn('kubectl', ['-n', NAMESPACE, 'apply', '-f', '-'], {
    stdio: ['pipe', 'ignore', 'inherit'],
  });
  child.stdin.end(JSON.stringify(object));
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(`kubectl apply ended with ${code}`);
}

/** A Service on a port of this machine, until `stop`. */
export async function forward(service: string, port: number) {
  const [local = 0] = await freePorts(1);
  const args = ['-n', NAMESPACE, 'port-forward', `service/${service}`, `${local}:${port}`];
  const child = spawn('kubectl', args, { stdio: ['ignore', 'pipe', 'inherit'] });
  await Promise.race([
    once(child.stdout, 'data'),
    once(child, 'exit').then(() => Promise.reject(new Error(`no way to service/${service}`))),
  ]);
  return { url: `http://127.0.0.1:${local}`, stop: () => child.kill() };
}
