import { type FileHandle, open } from 'node:fs/promises';
import { Command, InvalidArgumentError } from 'commander';
import { printable } from '../../../services/platform/values/text.ts';
import { requireShop } from '../../tenancy/shops.ts';
import { type AdminContext, openAdminContext } from '../admin-context.ts';
import { shopId } from '../arguments.ts';
import { explain } from '../explain.ts';
import { describeFormat, type Format, formatOf, readColumnMap } from './format.ts';
import { type ImportSummary, importReturns } from './run.ts';
import { storeInput, unreadable } from './source.ts';
import { type ImportTarget, targetOf } from './target.ts';

interface Options {
  readonly shop: bigint;
  readonly currency?: string;
  readonly columns?: string;
  readonly encoding?: string;
  readonly sha256?: string;
  readonly stack?: string;
}

const program = new Command('npm run import --')
  .description('Imports returns from a CSV file; safe to run again. See docs/import.md.')
  .argument('<file.csv>', 'the file, or - for standard input (32 MiB at most)')
  .requiredOption('--shop <id>', 'the shop of the returns', shopId)
  .option('--currency <code>', "the file's currency; another one than the shop's is rejected")
  .option('--columns <file>', 'how the file names its columns and writes dates and decimals (JSON)')
  .option(
    '--encoding <name>',
    'such as windows-1252; without it UTF-8, or what the file itself says',
  )
  .option(
    '--sha256 <hex>',
    'with -: the hash of the whole file; an incomplete file is rejected',
    sha256,
  )
  .option('--stack <file>', 'the stack file of the local stack to import into')
  .action(async (name: string, options: Options) => {
    const context = await openAdminContext(process.env, options.stack);
    try {
      await run(name, options, context);
    } finally {
      await context.close();
    }
  });

function sha256(text: string): string {
  if (/^[0-9a-f]{64}$/i.test(text)) return text.toLowerCase();
  throw new InvalidArgumentError('must be 64 hexadecimal digits');
}

async function run(name: string, options: Options, o: AdminContext): Promise<void> {
  const { services, by } = o;
  if (options.sha256 && name !== '-') throw new Error('--sha256 is only for standard input (-)');
  await requireShop(o.pool, options.shop);
  const call = { shopId: options.shop, actor: by.actor };
  const target = await targetOf(services.returns, call, options.currency);
  const map = options.columns === undefined ? undefined : await readColumnMap(options.columns);
  const { source, size } =
    name === '-' ? await storeInput(process.stdin, options) : await openFile(name);
  try {
    const format = await formatOf(source, map, options.encoding);
    console.log(`${name === '-' ? 'standard input' : name}: ${describeFormat(format)}`);
    await importFile({ source, size, format }, target, services);
  } finally {
    await source.close();
  }
}

async function importFile(
  { source, size, format }: { source: FileHandle; size: number; format: Format },
  target: ImportTarget,
  { returns }: AdminContext['services'],
): Promise<void> {
  const before = await source.stat();
  const requireUnchanged = async () => {
    const { mtimeMs, size: now } = await source.stat();
    if (mtimeMs === before.mtimeMs && now === before.size) return;
    throw new Error(
      'the file changed while it was read: run the command again when it is complete',
    );
  };
  const bar = startProgress('importing', size);
  try {
    const progress = (bytes: number) => bar.update(bytes);
    const o = { returns, format, progress, requireUnchanged };
    const summary = await importReturns(source, target, o);
    bar.update(size);
    bar.stop();
    printSummary(summary);
    process.exitCode = summary.rejected.returns > 0 ? 1 : 0;
  } finally {
    bar.stop();
  }
}

/** Opens a file once, so that all of its readings are of the same file. */
async function openFile(path: string): Promise<{ source: FileHandle; size: number }> {
  const source = await open(path).catch((cause) => {
    throw unreadable(path, cause);
  });
  const found = await source.stat();
  if (found.isFile()) return { source, size: found.size };
  await source.close();
  throw new Error(`${path} is not a file; - reads standard input`);
}

const WIDTH = 40;

/** Shows a progress bar on standard error, if that is a terminal: one line, which is drawn again at each update. */
export function startProgress(
  title: string,
  total: number,
): { update(done: number): void; stop(): void } {
  const { stderr } = process;
  const draw = (share: number): void => {
    const bar = '='.repeat(Math.round(share * WIDTH)).padEnd(WIDTH);
    stderr.write(`\r${title} [${bar}] ${Math.round(share * 100)} %`);
  };
  let isShown = stderr.isTTY;
  if (isShown) draw(0);
  return {
    update(done) {
      if (isShown) draw(total > 0 ? Math.min(1, done / total) : 1);
    },
    stop() {
      if (isShown) stderr.write('\n');
      isShown = false;
    },
  };
}

/** Maximum number of errors that are printed; the rest are counted. */
const MAX_PRINTED = 50;
/** Maximum length of an error that is printed. Cells may be long. */
const MAX_LENGTH = 500;

const NOTES = {
  imported: '',
  skipped: '  (imported before)',
  corrected: '  (imported before, with other texts)',
  rejected: '',
};

/** Prints the result of an import: the counts, then each error with its line and reason. */
export function printSummary(summary: ImportSummary): void {
  console.log();
  for (const kind of ['imported', 'skipped', 'corrected', 'rejected'] as const) {
    const { returns, rows } = summary[kind];
    const note = returns > 0 ? NOTES[kind] : '';
    console.log(`${kind.padEnd(10)}${plural(returns, 'return')}, ${plural(rows, 'row')}${note}`);
  }
  for (const { line, reason } of summary.errors.slice(0, MAX_PRINTED)) {
    console.log(`  line ${line}: ${printable(reason, MAX_LENGTH)}`);
  }
  const unprinted = summary.errorCount - MAX_PRINTED;
  if (unprinted > 0) console.log(`  and ${unprinted} more`);
}

function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

// At the end, because it runs before anything below it is initialized.
try {
  await program.parseAsync();
} catch (error) {
  process.stderr.write(`import: ${explain(error)}\n`);
  process.exitCode = 1;
}
