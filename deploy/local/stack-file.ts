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

/** A mistyped `--stack` names somebody's file: it is neither read for a stack nor overwritten. */
function parsed<S extends z.ZodType>(schema: S, text: string, path: string): z.infer<S> {
  try {
    return schema.parse(JSON.parse(text));
  } catch {
    throw new Error(`${path} is no stack file: remove it, or name another with --stack <file>`);
  }
}

const ownerSchema = z.object({ pid: z.number().int(), control_url: z.url() });

/**
 * Refuses to go on while the stack that a stack file names is still running.
 *
 * @throws Error naming the process, or that the file is none; one whose process is dead is left to be replaced.
 */
export async function refuseRunningStack(path: string): Promise<void> {
  const text = await readFile(path, 'utf8').catch(() => undefined);
  if (!text) return;
  const { pid, control_url } = parsed(ownerSchema, text, path);
  if (pid === process.pid || !alive(pid)) return;
  // A crashed stack is gone, but the number of its process may by now be somebody else's.
  if (!(await isFree(Number(new URL(control_url).port)))) {
    throw new Error(
      `a stack is running already (process ${pid}, see ${path}): stop it, or start another with --stack <file>`,
    );
  }
}

/** Writes the stack file, readable by its owner only, in one step: nobody ever reads half of it. */
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
 * Reads the file by which a running stack is found.
 *
 * @throws Error that says to start the stack when there is none, or that the file is none.
 */
export async function readStackFile(path: string): Promise<z.infer<typeof stackSchema>> {
  const text = await readFile(path, 'utf8').catch(() => undefined);
  if (!text) throw new Error(`no stack is running (${path} does not exist): run npm start first`);
  return parsed(stackSchema, text, path);
}
