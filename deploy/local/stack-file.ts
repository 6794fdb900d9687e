import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { z } from 'zod';
import { isFree } from './free-ports.ts';

function alive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Rejects a file that is not a stack file, so that a mistyped `--stack` does not overwrite another file. */
function parsed<S extends z.ZodType>(schema: S, text: string, path: string): z.infer<S> {
  try {
    return schema.parse(JSON.parse(text));
  } catch {
    throw new Error(
      `${path} is not a stack file: remove it, or use another one with --stack <file>`,
    );
  }
}

const ownerSchema = z.object({ pid: z.number().int(), control_url: z.url() });

/**
 * Checks that the stack of a stack file is not running. The file of a stopped stack is accepted and will be replaced.
 *
 * @throws Error with the process id when the stack is running; Error when the file is not a stack file.
 */
export async function requireNoRunningStack(path: string): Promise<void> {
  const text = await readFile(path, 'utf8').catch(() => undefined);
  if (!text) return;
  const { pid, control_url } = parsed(ownerSchema, text, path);
  if (pid === process.pid || !alive(pid)) return;
  // The control port is checked too, because the process id of a crashed stack may be reused by another process.
  if (!(await isFree(Number(new URL(control_url).port)))) {
    throw new Error(
      `a stack is running already (process ${pid}, see ${path}): stop it, or start another with --stack <file>`,
    );
  }
}

/** Writes the stack file atomically, readable only by its owner. */
export async function writeStackFile(path: string, stack: object): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(`${path}.part`, `${JSON.stringify(stack, null, 2)}\n`, { mode: 0o600 });
  await rename(`${path}.part`, path);
}

export async function removeStackFile(path: string): Promise<void> {
  await rm(path, { force: true });
}

const stackSchema = z.looseObject({
  pid: z.number(),
  base_url: z.string(),
  database_url: z.string(),
  control_url: z.string(),
  control_token: z.string(),
  grpc: z.record(z.string(), z.string()),
  shops: z.array(
    z.looseObject({
      id: z.number(),
      currency: z.string(),
      api_keys: z.looseObject({ all: z.string() }),
    }),
  ),
});

/**
 * Reads the stack file.
 *
 * @throws Error when no stack is running, or when the file is not a stack file.
 */
export async function readStackFile(path: string): Promise<z.infer<typeof stackSchema>> {
  const text = await readFile(path, 'utf8').catch(() => undefined);
  if (!text) throw new Error(`no stack is running (${path} does not exist): run npm start first`);
  return parsed(stackSchema, text, path);
}
