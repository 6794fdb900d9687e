import { Command } from 'commander';
import { Check, CheckSchema } from '../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { requireShop } from '../tenancy/shops.ts';
import type { Print, Run } from './admin-context.ts';
import { orderId, type ShopOption, shopId } from './arguments.ts';

/** The check that runs first. When it fails, the other checks make no sense. */
const FIRST = Check.CONNECTION;
const CHECKS: readonly Check[] = [
  FIRST,
  ...CheckSchema.values
    .map(({ number }) => number as Check)
    .filter((check) => check !== Check.UNSPECIFIED && check !== FIRST),
];

interface CheckOptions extends ShopOption {
  readonly order?: bigint;
  readonly orderName?: string;
}

/** The order of the requests, when the caller names none. It need not exist. */
const TEST_ORDER = { id: 1n, name: '#1' };
/** Time limit of the call. It is longer than the longest check. Milliseconds. */
const CHECK_MS = 120_000;

/** `commerce check`: asks a merchant's endpoint the questions of docs/commerce.md. */
export function checkCommand(run: Run, print: Print): Command {
  return new Command('check')
    .description(
      "call a shop's endpoint with a test order, and judge signatures, idempotency, errors, money and timing: about 90 requests, each of which may take 8 seconds. Every request says `sandbox`; an endpoint must move no money for it",
    )
    .requiredOption('--shop <id>', 'the shop', shopId)
    .option('--order <id>', "your platform's id of an order for tests (default: 1)", orderId)
    .option(
      '--order-name <name>',
      'its name (default: #1). With it the endpoint must find the order by this name, unless it looks up none',
    )
    .action((o: CheckOptions, command: Command) => {
      if (o.orderName !== undefined && o.order === undefined) {
        command.error('error: --order-name needs --order, the id of the same order');
      }
      return run(async ({ pool, services, by }) => {
        await requireShop(pool, o.shop);
        const about = {
          shopId: o.shop,
          actor: by.actor,
          providerOrderId: o.order ?? TEST_ORDER.id,
          orderName: o.orderName ?? TEST_ORDER.name,
          orderExists: o.orderName !== undefined,
        };
        let failed = 0;
        for (const check of CHECKS) {
          const call = { ...about, check };
          const { problems, title } = await services.commerce.runCheck(call, {
            timeoutMs: CHECK_MS,
          });
          failed += problems.length > 0 ? 1 : 0;
          print(`${problems.length > 0 ? 'FAILED' : 'passed'}  ${title}`);
          for (const problem of problems) print(`        ${problem}`);
          if (check === FIRST && failed > 0) throw new Error('the other checks were not made');
        }
        if (failed > 0) throw new Error(`${failed} of ${CHECKS.length} checks failed`);
        print(`all ${CHECKS.length} checks passed`);
      });
    });
}
