import { randomBytes } from 'node:crypto';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { exportJWK, generateKeyPair } from 'jose';
import { z } from 'zod';
import { newKeyringText } from '../../services/platform/keyring.ts';
import { freePorts } from './free-ports.ts';

/** Every port of the stack that has to stay the same over restarts. */
export const PORT_NAMES = [
  'gateway',
  'identity',
  'control',
  'sink',
  'postgres',
  'kafka',
  'returns',
  'dispositions',
  'destinations',
  'fraud',
  'carts',
  'webhooks',
  'deprecated',
  'sunset',
  'expired',
  'gateway-metrics',
  'returns-metrics',
  'dispositions-metrics',
  'destinations-metrics',
  'fraud-metrics',
  'carts-metrics',
  'webhooks-metrics',
] as const;

export type PortName = (typeof PORT_NAMES)[number];

/** A file of an earlier version may lack some; they are filled in. */
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
  /** What seeding has finished, by step. */
  seeded: z.record(z.string(), z.unknown()),
});

/** What a stack must know again after a restart: secrets, addresses, and how far seeding came. */
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

/** The known ports, and free ones for names that have none yet. */
async function completed(known: z.infer<typeof portsSchema>): Promise<Memory['ports']> {
  const missing = PORT_NAMES.filter((name) => known[name] === undefined);
  const found = missing.length > 0 ? await freePorts(missing.length, Object.values(known)) : [];
  const added = Object.fromEntries(missing.map((name, at) => [name, found[at] ?? 0]));
  return { ...known, ...added } as Memory['ports'];
}

export interface MemoryFile {
  readonly memory: Memory;
  /** The secret of that name, made at its first use. */
  secretOf(name: string, make: () => string): string;
  save(): Promise<void>;
}

/** What seals the signing keys of sign-in. */
export function oauthKeyringOf(file: MemoryFile): string {
  return file.secretOf('oauth-keyring', () => newKeyringText());
}

/** What signs events; kept, as the broker keeps events over a restart. */
export function eventKeyringOf(file: MemoryFile): string {
  return file.secretOf('event-keyring', () => newKeyringText());
}

/** The secret by which the gateway is known where its users sign in. */
export function signInSecretOf(file: MemoryFile): string {
  return file.secretOf('sign-in-client', () => secret());
}

async function remembered(text: string): Promise<Memory> {
  const stored = memorySchema.parse(JSON.parse(text));
  return { ...stored, ports: await completed(stored.ports) };
}

/**
 * Reads `<folder>/local.json`, or makes a new one (mode 600, replaced by rename).
 *
 * @param fixed ports that the user named; they win over remembered ones.
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
  // Kept before their first use: what they encrypted or signed outlives this process.
  oauthKeyringOf(file);
  eventKeyringOf(file);
  await file.save();
  return file;
}
