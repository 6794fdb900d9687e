import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { promisify } from 'node:util';
import { freePorts } from '../../deploy/local/free-ports.ts';

const run = promisify(execFile);
const MAX_BYTES = 16 * 1024 * 1024;

/** kubectl in one namespace of the cluster of `KUBECONFIG`. */
export class Namespace {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }

  /** @throws Error with what kubectl wrote. */
  async kubectl(...args: readonly string[]): Promise<string> {
    const { stdout } = await run('kubectl', ['-n', this.name, ...args], { maxBuffer: MAX_BYTES });
    return stdout;
  }

  /** Creates or changes objects. */
  async apply(...objects: readonly object[]): Promise<void> {
    await this.#write('apply', objects);
  }

  /** Creates an object or a subresource at a path of the API. */
  async create(object: object, path: string): Promise<void> {
    await this.#write('create', [object], '--raw', path);
  }

  /** A Service or pod on a port of this machine, until `stop`; on a free one by default. */
  async forward(target: string, port: number, onPort?: number) {
    const local = onPort ?? (await freePorts(1))[0];
    const args = ['-n', this.name, 'port-forward', target, `${local}:${port}`];
    const child = spawn('kubectl', args, { stdio: ['ignore', 'pipe', 'inherit'] });
    await Promise.race([
      once(child.stdout, 'data'),
      once(child, 'exit').then(() => Promise.reject(new Error(`no connection to ${target}`))),
    ]);
    return { url: `http://127.0.0.1:${local}`, stop: () => child.kill() };
  }

  async #write(verb: string, objects: readonly object[], ...args: readonly string[]) {
    const child = spawn('kubectl', ['-n', this.name, verb, ...args, '-f', '-'], {
      stdio: ['pipe', 'ignore', 'inherit'],
    });
    child.stdin.end(objects.map((one) => JSON.stringify(one)).join('\n---\n'));
    const [code] = await once(child, 'exit');
    if (code !== 0) throw new Error(`kubectl ${verb} ended with ${code}`);
  }
}

/** The namespaces of the overlays. */
export const DEV = new Namespace('rms-dev');
export const PRODUCTION = new Namespace('rms');
