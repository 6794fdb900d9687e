import { stat } from 'node:fs/promises';
import { Command, InvalidArgumentError } from 'commander';
import { requireShop } from '../../tenancy/shops.ts';
import { type AdminContext, openAdminContext } from '../admin-context.ts';
import { shopId } from '../arguments.ts';
import { explain } from '../explain.ts';
import { printSummary, startProgress } from './output.ts';
import type { Source } from './rows.ts';
import { importReturns } from './run.ts';
import { storeInput } from './standard-input.ts';
import { targetOf } from './target.ts';

interface Options {
  readonly shop: bigint;
  readonly currency?: string;
  readonly sha256?: string;
  readonly stack?: string;
}

const program = new Command('npm run import --')
  .description('Imports returns from a CSV file; safe to run again. See docs/import.md.')
  .argument('<file.csv>', 'the file, or - for standard input (32 MiB at most)')
  .requiredOption('--shop <id>', 'the shop of the returns', shopId)
  .option('--currency <code>', "the file's currency; another one than the shop's is rejected")
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
  const { source, size } =
    name === '-' ? await storeInput(process.stdin, options) : await findFile(name);
  const bar = startProgress('importing', size);
  try {
    const progress = (bytes: number) => bar.update(bytes);
    const summary = await importReturns(source, target, { returns: services.returns, progress });
    bar.update(size);
    bar.stop();
    printSummary(summary);
    process.exitCode = summary.rejected.returns > 0 ? 1 : 0;
  } finally {
    bar.stop();
    if (typeof source !== 'string') await source.close();
  }
}

async function findFile(path: string): Promise<{ source: Source; size: number }> {
  const found = await stat(path).catch((cause: unknown) => {
    throw new Error(`there is no file ${path}`, { cause });
  });
  if (!found.isFile()) throw new Error(`${path} is not a file`);
  return { source: path, size: found.size };
}

try {
  await program.parseAsync();
} catch (error) {
  process.stderr.write(`import: ${explain(error)}\n`);
  process.exitCode = 1;
}
