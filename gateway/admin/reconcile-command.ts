import { Command } from 'commander';
import {
  type Difference,
  Difference_ProblemSchema,
  EffectKindSchema,
} from '../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import type { Money } from '../../proto/gen/rms/common/v1/money_pb.ts';
import { enumText } from '../../services/platform/enum-text.ts';
import { requireShop } from '../tenancy/shops.ts';
import type { Print, Run } from './admin-context.ts';
import { day, shopId } from './arguments.ts';

const PROBLEM = enumText(Difference_ProblemSchema);
const KIND = enumText(EffectKindSchema);
const DAY_MS = 86_400_000;
/** A day of a large shop has many effects, and a provider that cannot list them is asked for each. Milliseconds. */
const DAY_TIMEOUT_MS = 3_600_000;

interface ReconcileOptions {
  readonly shop: bigint;
  readonly from: string;
  readonly to?: string;
}

/** `reconcile`: compares the effects of days with those of the shop's commerce provider. */
export function reconcileCommand(run: Run, print: Print): Command {
  return new Command('reconcile')
    .description(
      "compare a shop's refunds, orders and gift cards with those of its commerce provider, day by day in UTC",
    )
    .requiredOption('--shop <id>', 'the shop', shopId)
    .requiredOption('--from <day>', 'the first day, such as 2026-11-20', day)
    .option('--to <day>', 'the last day; the first one when absent', day)
    .action((o: ReconcileOptions, command: Command) => {
      const days = daysOf(o);
      if (days.length === 0) command.error('error: --to must not be before --from');
      return run(async ({ pool, services, by }) => {
        await requireShop(pool, o.shop);
        let differences = 0;
        for (const one of days) {
          const call = { shopId: o.shop, actor: by.actor, day: one };
          const result = await services.commerce.reconcile(call, { timeoutMs: DAY_TIMEOUT_MS });
          differences += result.total;
          const note = result.listed ? '' : '  (the provider lists no effects)';
          print(`${one}  ${result.compared} compared, ${result.total} differ${note}`);
          for (const difference of result.differences) print(`  ${lineOf(difference)}`);
        }
        if (differences > 0) throw new Error(`${differences} effects differ`);
      });
    });
}

function daysOf({ from, to = from }: ReconcileOptions): string[] {
  const first = Date.parse(from);
  const count = Math.floor((Date.parse(to) - first) / DAY_MS) + 1;
  return Array.from({ length: Math.max(0, count) }, (_, at) =>
    new Date(first + at * DAY_MS).toISOString().slice(0, 10),
  );
}

function lineOf({ problem, kind, key, ours, theirs, providerId }: Difference): string {
  const what = [PROBLEM.toText(problem), KIND.toText(kind), key];
  return [...what, `ours ${moneyOf(ours)}`, `theirs ${moneyOf(theirs)}`, providerId || '-'].join(
    '  ',
  );
}

function moneyOf(money: Money | undefined): string {
  return money ? `${money.value} ${money.currency}` : '-';
}
