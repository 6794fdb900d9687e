import { mkdir, readdir, readFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { DOCUMENTS, HERE, run } from './run.ts';

/**
 * Tries the OpenAPI documents with programs of others (`npm run check:openapi`): Redocly and Spectral report nothing,
 * and the clients that openapi-typescript and openapi-python-client generate compile strictly. With `--stack <file>`
 * both also make a partner's journey against the local stack of that file.
 */
const STRICT = [
  ...['--strict', '--noUncheckedIndexedAccess', '--exactOptionalPropertyTypes', '--noEmit'],
  ...['--module', 'nodenext', '--target', 'es2024', '--allowImportingTsExtensions'],
  // The types of Node are those of the project.
  ...['--types', 'node', '--typeRoots', `${HERE}../../node_modules/@types`],
];
/** The version whose generated clients make the journey. */
const VERSION = '2026-10';

const tool = (name: string, args: readonly string[]) => run(`node_modules/.bin/${name}`, args);
const python = (name: string, args: readonly string[]) => run(`.venv/bin/${name}`, args);

async function lint(name: string): Promise<void> {
  const path = DOCUMENTS + name;
  const redocly = await tool('redocly', ['lint', '--extends=recommended', '--format=json', path]);
  const { totals } = JSON.parse(redocly.slice(redocly.indexOf('{')));
  if (totals.errors + totals.warnings > 0) throw new Error(`Redocly, ${name}: ${redocly}`);
  const ruleset = ['-r', 'spectral.json', '--fail-severity', 'hint'];
  await tool('spectral', ['lint', ...ruleset, path]);
  process.stdout.write(`${name}: Redocly and Spectral report nothing\n`);
}

async function compileTypescript(names: readonly string[]): Promise<void> {
  const generated: string[] = [];
  for (const name of names) {
    const target = `generated/${name.replace('.json', '.d.ts')}`;
    await tool('openapi-typescript', [DOCUMENTS + name, '-o', target]);
    generated.push(target);
  }
  await tool('tsc', [...STRICT, 'client/journey.ts', ...generated]);
  process.stdout.write(`${generated.length} generated TypeScript clients compile strictly\n`);
}

async function compilePython(): Promise<void> {
  const document = ['--path', `${DOCUMENTS}${VERSION}.json`, '--config', 'python-client.yml'];
  const target = ['--output-path', 'generated/returns_api', '--meta', 'none', '--overwrite'];
  await python('openapi-python-client', ['generate', ...document, ...target, '--fail-on-warning']);
  const env = { MYPYPATH: 'generated' };
  const options = ['--strict', '--cache-dir', 'generated/.mypy_cache'];
  await run('.venv/bin/mypy', [...options, '-p', 'returns_api'], env);
  await run('.venv/bin/mypy', [...options, 'client/journey.py'], env);
  process.stdout.write('the generated Python client and its journey pass mypy --strict\n');
}

async function walk(stackFile: string): Promise<void> {
  const { base_url, shops } = JSON.parse(await readFile(stackFile, 'utf8'));
  const env = { BASE_URL: base_url, API_KEY: shops[0].api_keys.all, PYTHONPATH: 'generated' };
  const typescript = await run(process.execPath, ['client/journey.ts'], env);
  process.stdout.write(`journey in TypeScript: ${typescript}`);
  process.stdout.write(
    `journey in Python: ${await run('.venv/bin/python', ['client/journey.py'], env)}`,
  );
}

const { values } = parseArgs({ options: { stack: { type: 'string' } } });
const names = (await readdir(DOCUMENTS)).filter((name) => name.endsWith('.json'));
if (names.length < 3) throw new Error('there are no documents');
for (const name of names) await lint(name);
await mkdir(`${HERE}generated`, { recursive: true });
await compileTypescript(names);
await compilePython();
if (values.stack !== undefined) await walk(values.stack);
