import { randomBytes } from 'node:crypto';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { exportJWK, generateKeyPair } from 'jose';
import { z } from 'zod';
import { newKeyringText } from '../../services/platform/security/keyring.ts';
import { PROCESS_NAMES, SERVICE_NAMES } from '../../services/platform/services.ts';
import { freePorts } from './free-ports.ts';

/** The ports of the stack that stay the same after a restart. */
export const PORT_NAMES = [
  'gateway',
  'identity',
  'control',
  'sink',
  'postgres',
  'kafka',
  ...SERVICE_NAMES,
  'deprecated',
  'sunset',
  'expired',
  ...PROCESS_NAMES.map((name) => `${name}-metrics` as const),
] as const;

export type PortName = (typeof PORT_NAMES)[number];

/** A file of an earlier version may not have all ports; missing ones are added. */
const portsSchema = z.partialRecord(z.enum(PORT_NAMES), z.number().int());

const memorySchema = z.object({
  ports: portsSchema,
  serviceToken: z.string(),
  controlToken: z.string(),
  databasePassword: z.string(),
  keyring: z.string(),
  cookieSecret: z.string(),
  /** Private RS256 key of the bundled identity provider. */
  signingKey: z.looseObject({ kty: z.string(), kid: z.string() }),
  partner: z.object({ clientId: z.string(), clientSecret: z.string() }),
  /** Secrets of the demo by name: passwords, API keys, webhook secrets. */
  secrets: z.record(z.string(), z.string()),
  /** The results of completed seeding steps, by step. */
  seeded: z.record(z.string(), z.unknown()),
});

/** The state of a stack that is kept over restarts: secrets, ports, and the progress of the seeding. */
export type Memory = Omit<z.infer<typeof memorySchema>, 'ports'> & {
  readonly ports: Record<PortName, number>;
};

const secret = (bytes = 32) => randomBytes(bytes).toString('base64url');

async function newMemory(): Promise<Memory> {
  const [ports, keys] = await Promise.all([
    completed({}),
    generateKeyPair('RS256', { extractable: true }),
  ]);
  return {
    ports,
    serviceToken: secret(),
    controlToken: secret(),
    databasePassword: secret(18),
    keyring: newKeyringText(),
    cookieSecret: secret(),
    signingKey: { ...(await exportJWK(keys.privateKey)), kty: 'RSA', kid: 'local-1', alg: 'RS256' },
    partner: { clientId: 'demo-partner-app', clientSecret: secret() },
    secrets: {},
    seeded: {},
  };
}

/** The stored ports, and free ones for names without a port. */
async function completed(known: z.infer<typeof portsSchema>): Promise<Memory['ports']> {
  const missing = PORT_NAMES.filter((name) => known[name] === undefined);
  const found = missing.length > 0 ? await freePorts(missing.length, Object.values(known)) : [];
  const added = Object.fromEntries(missing.map((name, at) => [name, found[at] ?? 0]));
  return { ...known, ...added } as Memory['ports'];
}

export interface MemoryFile {
  readonly memory: Memory;
  /** The secret with this name; created at first use. */
  secretOf(name: string, make: () => string): string;
  save(): Promise<void>;
}

/** The keyring that encrypts the signing keys of access tokens. */
export function oauthKeyringOf(file: MemoryFile): string {
  return file.secretOf('oauth-keyring', () => newKeyringText());
}

/** The keyring that signs events. It is stored, because the broker keeps events over a restart. */
export function eventKeyringOf(file: MemoryFile): string {
  return file.secretOf('event-keyring', () => newKeyringText());
}

/** The client secret of the gateway at the identity provider. */
export function signInSecretOf(file: MemoryFile): string {
  return file.secretOf('sign-in-client', () => secret());
}

async function remembered(text: string): Promise<Memory> {
  const stored = memorySchema.parse(JSON.parse(text));
  return { ...stored, ports: await completed(stored.ports) };
}

/**
 * Reads `<folder>/local.json`, or creates it (mode 600, replaced by rename).
 *
 * @param fixed ports that the user chose; they override the stored ones.
 */
export async function openMemory(
  folder: string,
  fixed: Partial<Record<PortName, number>>,
): Promise<MemoryFile> {
  await mkdir(folder, { recursive: true });
  const path = join(folder, 'local.json');
  const text = await readFile(path, 'utf8').catch(() => undefined);
  const memory = text ? await remembered(text) : await newMemory();
  Object.assign(memory.ports, fixed);

  let saving: Promise<void> = Promise.resolve();
  const write = async () => {
    await writeFile(`${path}.part`, JSON.stringify(memory, null, 2), { mode: 0o600 });
    await rename(`${path}.part`, path);
  };
  const file: MemoryFile = {
    memory,
    secretOf(name, make) {
      memory.secrets[name] ??= make();
      return memory.secrets[name];
    },
    save() {
      saving = saving.then(write);
      return saving;
    },
  };
  // Stored before first use, because data that they encrypted or signed is kept longer than this process runs.
  oauthKeyringOf(file);
  eventKeyringOf(file);
  await file.save();
  return file;
}
