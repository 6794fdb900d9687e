import { existsSync } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { temporaryFolder } from './postgres/temporary-folder.ts';
import { startNode, untilProcess } from './process.ts';

const MAIN = 'deploy/local/start.ts';

/** Maximum time of a stack's start on a busy machine. Milliseconds. */
const START_MS = 300_000;

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
  readonly identity_url: string;
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
  /** The path of the stack file. */
  readonly path: string;
  readonly shop: StackShop;
  readonly otherShop: StackShop;
  /** Calls the control server. Rejects when the response is not a success. */
  control<T = unknown>(method: string, path: string, body?: object): Promise<T>;
  /** Creates a return of this kind in the first shop. */
  fixture(name: string): Promise<Ref>;
  stop(): Promise<void>;
  /** Kills the process, as a crash does. The data of `--data` stays. */
  kill(): Promise<void>;
}

export interface StartedStackOptions {
  /** Added to this process's own environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** A file for the output of the stack. */
  readonly logTo?: string;
}

/** Starts the whole system like `npm start`, in a separate process, and waits until it is ready. */
export async function startTestStack(
  args: readonly string[] = [],
  o: StartedStackOptions = {},
): Promise<TestStack> {
  const folder = temporaryFolder();
  const path = join(folder, 'stack.json');
  const data = join(folder, 'data');
  const stack = startNode({
    name: 'the stack',
    args: ['--max-semi-space-size=8', MAIN, '--stack', path, '--data', data, ...args],
    env: { ...process.env, ...o.env, NODE_OPTIONS: '' },
    // The stack stops the processes that it started.
    onParentExit: 'SIGTERM',
    ...(o.logTo !== undefined && { logFile: o.logTo }),
  });
  await untilProcess(stack, () => existsSync(path), START_MS).catch(async (error: unknown) => {
    await stack.kill();
    throw error;
  });
  return {
    ...(await openTestStack(path)),
    async stop() {
      await stack.stop();
      await rm(folder, { recursive: true, force: true });
    },
    kill: () => stack.kill(),
  };
}

/** A running stack that the caller does not stop. */
export type OpenStack = Omit<TestStack, 'stop' | 'kill'>;

/** Opens a running stack by its stack file. */
export async function openTestStack(path: string): Promise<OpenStack> {
  const file = JSON.parse(await readFile(path, 'utf8')) as StackFile;
  const [shop, otherShop] = file.shops;
  if (!shop || !otherShop) throw new Error('the stack file has no shops');
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
