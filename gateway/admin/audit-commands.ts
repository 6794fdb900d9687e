import { Command } from 'commander';
import { printable } from '../../services/platform/text.ts';
import { type LoggedEntry, listAudit } from '../tenancy/audit-list.ts';
import { requireShop } from '../tenancy/shops.ts';
import type { Print, Run } from './admin-context.ts';
import { entryId, pageSize, shopId, time } from './arguments.ts';

interface ListOptions {
  readonly shop: bigint;
  readonly since?: Date;
  readonly until?: Date;
  readonly actor?: string;
  readonly action?: string;
  readonly limit: number;
  readonly cursor?: bigint;
}

const DEFAULT_LIMIT = 100;
/** Longer names and subjects are cut. Characters. */
const NAME_MAX = 200;
const SUBJECT_MAX = 500;

/** `audit list`: the audit log of a shop. */
export function auditCommands(run: Run, print: Print): Command {
  const audit = new Command('audit').description("read a shop's audit log");
  audit
    .command('list')
    .description(
      'list the entries, newest first, one per line: time, actor, address, request id, action, object, outcome; `-` when absent',
    )
    .requiredOption('--shop <id>', 'the shop', shopId)
    .option('--since <time>', 'from this time on, such as 2027-07-01T00:00:00Z', time)
    .option('--until <time>', 'before this time', time)
    .option('--actor <id>', 'id of a key, a client or a user')
    .option('--action <name>', 'such as rest.createCart, or rest.* for all that begin with rest.')
    .option('--limit <count>', 'maximum number of entries, 1 to 10000', pageSize, DEFAULT_LIMIT)
    .option('--cursor <id>', 'continue where an earlier list ended', entryId)
    .action(({ shop, cursor, ...filter }: ListOptions) =>
      run(async ({ pool }) => {
        await requireShop(pool, shop);
        const page = { ...filter, ...(cursor !== undefined && { before: cursor }) };
        const found = await listAudit(pool, { ...page, shopId: shop, limit: filter.limit + 1 });
        const shown = found.slice(0, filter.limit);
        for (const entry of shown) print(lineOf(entry));
        if (found.length > shown.length) print(`# more: --cursor ${shown.at(-1)?.id}`);
      }),
    );
  return audit;
}

/** One line of output. Names and ids come from callers, so control characters in them are replaced. */
function lineOf(entry: LoggedEntry): string {
  const { at, actorKind, actorId, actorName, source, requestId, action, subject, detail } = entry;
  const name = actorName === '' ? '' : ` ${JSON.stringify(printable(actorName, NAME_MAX))}`;
  const { phase } = detail;
  return [
    at.toISOString(),
    `${actorKind} ${actorId}${name}`,
    source ?? '-',
    requestId ?? '-',
    action,
    printable(subject, SUBJECT_MAX) || '-',
    typeof phase === 'string' ? phase : '-',
  ].join('  ');
}
