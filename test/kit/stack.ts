import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { temporaryFolder } from './postgres/temporary-folder.ts';

/** Longest start of a stack on a busy machine. Milliseconds. */
const START_MS = 90_000;

export interface Ref {
  readonly id: number;
  readonly order_id: number;
  readonly provider_order_id: number;
  readonly order_name: string;
  readonly line_item_ids: readonly number[];
}

export interface StackShop {
  readonly id: number;
  readonly currency: string;
  readonly payload_version: string;
  readonly api_keys: Readonly<Record<string, string>>;
  readonly partner_tokens: Readonly<Record<string, string>>;
  readonly fixtures: {
    readonly returns: Readonly<Record<string, readonly Ref[]>>;
    readonly line_items: readonly number[];
    readonly destinations: {
      readonly linked: number;
      readonly unlinked: number;
      readonly donation: number;
    };
    readonly webhooks: readonly { readonly id: number; readonly secret: string }[];
    readonly carts: readonly string[];
  };
}

export interface StackUser {
  readonly name: string;
  readonly email: string;
  readonly password: string;
  readonly memberships: readonly { readonly shop_id: number; readonly role: string }[];
  readonly mcp_tokens: Readonly<Record<string, string>>;
}

export interface StackFile {
  readonly pid: number;
  readonly base_url: string;
  readonly auth_url: string;
  readonly database_url: string;
  readonly base_url_at: Readonly<Record<string, string>>;
  readonly grpc: Readonly<Record<string, string>>;
  readonly control_url: string;
  readonly control_token: string;
  readonly metrics: Readonly<Record<string, string>>;
  readonly receivers: { readonly refused_examples: readonly string[] };
  readonly partner: Readonly<Record<string, string>>;
  readonly mcp: {
    readonly url: string;
    readonly client_id: string;
    readonly form: { readonly email: string; readonly shop: string; readonly consent: string };
  };
  readonly users: readonly StackUser[];
  readonly shops: readonly StackShop[];
}

export interface TestStack {
  readonly file: StackFile;
  /** Where the stack file lies. */
  readonly path: string;
  readonly shop: StackShop;
  readonly otherShop: StackShop;
  /** Calls the control server; rejects unless it answers with a success. */
  control<T = unknown>(method: string, path: string, body?: object): Promise<T>;
  /** A fresh return of that kind in the first shop. */
  fixture(name: string): Promise<Ref>;
  stop(): Promise<void>;
  /** Ends the process without a word, as a crash does; the data of `--data` stays. */
  kill(): Promise<void>;
}

export interface StartedStackOptions {
  /** Beside this process's own. */
  readonly env?: Readonly<Record<string, string>>;
  /** A file for everything that the stack prints. */
  readonly logTo?: string;
}

/** Starts the whole system like `npm start`, in a separate process, and waits until it is ready. */
export async function startTestStack(
  args: readonly string[] = [],
  o: StartedStackOptions = {},
): Promise<TestStack> {
  const folder = temporaryFolder();
  const path = join(folder, 'stack.json');
  const child = spawn(
    process.execPath,
    [
      '--max-semi-space-size=8',
      'deploy/local/start.ts',
      '--stack',
      path,
      '--data',
      join(folder, 'data'),
      ...args,
    ],
    { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...o.env, NODE_OPTIONS: '' } },
  );
  if (o.logTo !== undefined) {
    const log = createWriteStream(o.logTo, { mode: 0o600 });
    for (const stream of [child.stdout, child.stderr]) stream.pipe(log, { end: false });
  }
  await untilReady(child, path);
  return {
    ...(await openTestStack(path)),
    async stop() {
      if (child.exitCode === null && child.signalCode === null) {
        const gone = once(child, 'exit');
        child.kill('SIGTERM');
        await gone;
      }
      await rm(folder, { recursive: true, force: true });
    },
    async kill() {
      const gone = once(child, 'exit');
      child.kill('SIGKILL');
      await gone;
    },
  };
}

/** A stack that another part of the tests starts and stops. */
export type OpenStack = Omit<TestStack, 'stop' | 'kill'>;

/** Finds a running stack by its stack file. */
export async function openTestStack(path: string): Promise<OpenStack> {
  const file = JSON.parse(await readFile(path, 'utf8')) as StackFile;
  const [shop, otherShop] = file.shops;
  if (!shop || !otherShop) throw new Error('the stack came up without its shops');
  const control = async <T>(method: string, route: string, body?: object): Promise<T> => {
    const response = await fetch(`${file.control_url}${route}`, {
      method,
      headers: {
        authorization: `Bearer ${file.control_token}`,
        'content-type': 'application/json',
      },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${route}: ${response.status} ${text}`);
    return (text ? JSON.parse(text) : undefined) as T;
  };
  return {
    file,
    path,
    shop,
    otherShop,
    control,
    fixture: (name) => control('POST', `/fixtures/${name}?shop=${shop.id}`),
  };
}

async function untilReady(child: ChildProcess, path: string): Promise<void> {
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk) => {
      output = (output + chunk).slice(-20_000);
    });
  }
  for (const deadline = Date.now() + START_MS; Date.now() < deadline; await sleep(50)) {
    const text = await readFile(path, 'utf8').catch(() => undefined);
    if (text) return;
    if (child.exitCode !== null) throw new Error(`the stack ended before it was ready:\n${output}`);
  }
  child.kill('SIGKILL');
  throw new Error(`the stack was not ready after ${START_MS / 1000} s:\n${output}`);
}
