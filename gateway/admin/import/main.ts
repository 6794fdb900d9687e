import { stat } from 'node:fs/promises';
import { Command } from 'commander';
import { requireShop } from '../../tenancy/shops.ts';
import { type AdminContext, openAdminContext } from '../admin-context.ts';
import { shopId } from '../arguments.ts';
import { explain } from '../explain.ts';
import { startProgress } from './progress.ts';
import { importReturns } from './run.ts';
import { printSummary } from './summary.ts';
import { targetOf } from './target.ts';

interface Options {
  readonly shop: bigint;
  readonly currency?: string;
  readonly stack?: string;
}

const program = new Command('npm run import --')
  .description('Imports returns from a CSV file; safe to run again. See docs/import.md.')
  .argument('<file.csv>', 'the file')
  .requiredOption('--shop <id>', 'the shop they belong to', shopId)
  .option('--currency <code>', "the file's currency; refused when it is not the shop's")
  .option('--stack <file>', 'the stack file of the local stack to import into')
  .action(async (file: string, options: Options) => {
    const context = await openAdminContext(process.env, options.stack);
    try {
      await run(file, options, context);
    } finally {
      await context.close();
    }
  });

async function run(file: string, options: Options, o: AdminContext): Promise<void> {
  const { services, by } = o;
  const found = await stat(file).catch((cause: unknown) => {
    throw new Error(`there is no file ${file}`, { cause });
  });
  if (!found.isFile()) throw new Error(`${file} is not a file`);
  const { size } = found;
  await requireShop(o.pool, options.shop);
  const call = { shopId: options.shop, actor: by.actor };
  const target = await targetOf(services.returns, call, options.currency);
  const bar = startProgress('importing', size);
  try {
    const progress = (bytes: number) => bar.update(bytes);
    const summary = await importReturns(file, target, { returns: services.returns, progress });
    bar.update(size);
    bar.stop();
    printSummary(summary);
    process.exitCode = summary.refused.returns > 0 ? 1 : 0;
  } finally {
    bar.stop();
  }
}

try {
  await program.parseAsync();
} catch (error) {
  process.stderr.write(`import: ${explain(error)}\n`);
  process.exitCode = 1;
}
