import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { partnerIssuer } from '../../gateway/oauth/partners/address.ts';
import { isFree } from './free-ports.ts';
import { type Memory, type MemoryFile, openMemory } from './memory.ts';
import type { ExternalSystems, StartOptions } from './options.ts';

/** The common input for starting the parts of a stack: folder, ports and URLs are chosen before anything runs. */
export interface Plan {
  readonly options: StartOptions;
  readonly externalSystems: ExternalSystems;
  readonly folder: string;
  readonly memory: MemoryFile;
  readonly ports: Memory['ports'];
  readonly baseUrl: string;
  /** The authorization server of partners' apps: the gateway's own. */
  readonly authUrl: string;
  /** The identity provider where people sign in. */
  readonly identityUrl: string;
  readonly startedAt: Date;
  /** The date of the version calendar when the stack starts. */
  readonly today: Date;
}

/** A started part that can be stopped. */
export interface Stopper {
  stop(): Promise<void>;
}

/** The folder of `--data`, else a new one that is deleted at the end. */
export async function openFolder(data: string | undefined): Promise<Stopper & { path: string }> {
  if (data) return { path: resolve(data), stop: async () => {} };
  const path = await mkdtemp(join(tmpdir(), 'rms-'));
  return { path, stop: () => rm(path, { recursive: true, force: true }) };
}

/** @throws Error when a stack runs on the data of the folder. */
export async function planOf(
  options: StartOptions,
  externalSystems: ExternalSystems,
  folder: string,
): Promise<Plan> {
  const startedAt = new Date();
  const memory = await openMemory(folder, options.port ? { gateway: options.port } : {});
  const { ports } = memory.memory;
  // A second stack on the same data would stop the database of the first one, as if it were left from a crash.
  if (!(await isFree(ports.control))) {
    throw new Error(`a stack is running already on the data in ${folder}: stop it first`);
  }
  const baseUrl = `http://127.0.0.1:${ports.gateway}`;
  return {
    options,
    externalSystems,
    folder,
    memory,
    ports,
    baseUrl,
    authUrl: partnerIssuer(baseUrl),
    identityUrl: externalSystems.oidcIssuer ?? `http://127.0.0.1:${ports.identity}`,
    startedAt,
    today: options.calendar ?? startedAt,
  };
}
