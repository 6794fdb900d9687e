import { execFile } from 'node:child_process';
import { mkdir, readdir, readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';

/**
 * Tries the OpenAPI documents with programs of others (`npm run check:openapi`): Redocly and Spectral report nothing,
 * and the client that openapi-typescript generates compiles strictly. With `--stack <file>` it also makes a partner's
 * journey against the local stack of that file.
 */
const HERE = fileURLToPath(new URL('.', import.meta.url));
const DOCUMENTS = fileURLToPath(new URL('../../docs/openapi/', import.meta.url));
const TIMEOUT_MS = 120_000;
const STRICT = [
  ...['--strict', '--noUncheckedIndexedAccess', '--exactOptionalPropertyTypes', '--noEmit'],
  ...['--module', 'nodenext', '--target', 'es2024', '--allowImportingTsExtensions'],
  // The types of Node are those of the project.
  ...['--types', 'node', '--typeRoots', `${HERE}../../node_modules/@types`],
];

const run = promisify(execFile);

/** Runs a program of this package. Its output is printed when it fails. */
async function tool(name: string, args: readonly string[]): Promise<string> {
  const env = { ...process.env, REDOCLY_TELEMETRY: 'off', NO_COLOR: '1' };
  const options = { cwd: HERE, env, timeout: TIMEOUT_MS, maxBuffer: 64 * 1024 * 1024 };
  try {
    return (await run(`${HERE}node_modules/.bin/${name}`, args, options)).stdout;
  } catch (error) {
    for (const stream of ['stdout', 'stderr']) {
      process.stderr.write(String(Reflect.get(Object(error), stream) ?? ''));
    }
    throw new Error(`${name} failed`, { cause: error });
  }
}

async function lint(name: string): Promise<void> {
  const path = DOCUMENTS + name;
  const redocly = await tool('redocly', ['lint', '--extends=recommended', '--format=json', path]);
  const { totals } = JSON.parse(redocly.slice(redocly.indexOf('{')));
  if (totals.errors + totals.warnings > 0) throw new Error(`Redocly, ${name}: ${redocly}`);
  const ruleset = ['-r', 'spectral.json', '--fail-severity', 'hint'];
  await tool('spectral', ['lint', ...ruleset, path]);
  process.stdout.write(`${name}: Redocly and Spectral report nothing\n`);
}

async function generate(name: string): Promise<string> {
  const target = `generated/${name.replace('.json', '.d.ts')}`;
  await tool('openapi-typescript', [DOCUMENTS + name, '-o', target]);
  return target;
}

async function walk(stackFile: string): Promise<void> {
  const { base_url, shops } = JSON.parse(await readFile(stackFile, 'utf8'));
  const env = { ...process.env, BASE_URL: base_url, API_KEY: shops[0].api_keys.all };
  const options = { cwd: HERE, env, timeout: TIMEOUT_MS };
  const { stdout } = await run(process.execPath, ['client/journey.ts'], options);
  process.stdout.write(`journey: ${stdout}`);
}

const { values } = parseArgs({ options: { stack: { type: 'string' } } });
const names = (await readdir(DOCUMENTS)).filter((name) => name.endsWith('.json'));
if (names.length < 3) throw new Error('there are no documents');
for (const name of names) await lint(name);
await mkdir(`${HERE}generated`, { recursive: true });
const generated: string[] = [];
for (const name of names) generated.push(await generate(name));
await tool('tsc', [...STRICT, 'client/journey.ts', ...generated]);
process.stdout.write(`${generated.length} generated clients compile strictly\n`);
if (values.stack !== undefined) await walk(values.stack);
