import { Command, Option } from 'commander';
import { EffectKindSchema } from '../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { EFFECT_KINDS } from '../../services/contract/resources/effect.ts';
import { effectView } from '../../services/contract/views/effect.ts';
import { enumText } from '../../services/platform/enum-text.ts';
import { sent } from '../actions/context.ts';
import { recordAudit } from '../tenancy/audit.ts';
import { requireShop } from '../tenancy/shops.ts';
import type { Print, Run } from './admin-context.ts';
import { returnId, shopId } from './arguments.ts';

const KIND = enumText(EffectKindSchema);

interface SettleOptions {
  readonly shop: bigint;
  readonly return: bigint;
  readonly effect: string;
  readonly made?: string;
  readonly notMade?: true;
  readonly amount: string;
  readonly name: string;
  readonly gateway: string;
}

/** `commerce settle`: what a person found in the provider's records about an effect with an unknown outcome. */
export function settleCommand(run: Run, print: Print): Command {
  return new Command('settle')
    .description(
      "record what the provider's own records say about an effect with an unknown outcome: --made or --not-made",
    )
    .requiredOption('--shop <id>', 'the shop', shopId)
    .requiredOption('--return <id>', 'the return', returnId)
    .addOption(new Option('--effect <kind>', 'which').choices(EFFECT_KINDS).makeOptionMandatory())
    .option('--made <id>', "it was made: the provider's id of it")
    .option('--amount <decimal>', 'with --made: its amount, when it is not the requested one', '')
    .option('--name <name>', 'with --made: the name of an order', '')
    .option('--gateway <gateway>', 'with --made: the payment gateway of a refund', '')
    .option('--not-made', 'it was not made; the next run requests it')
    .action((o: SettleOptions, command: Command) => {
      if ((o.made === undefined) === (o.notMade === undefined)) {
        command.error('error: say either --made <id> or --not-made');
      }
      return run(async ({ pool, services, by }) => {
        await requireShop(pool, o.shop);
        const { amount, name, gateway } = o;
        const { effect } = await services.commerce.settleEffect({
          shopId: o.shop,
          actor: by.actor,
          returnId: o.return,
          kind: KIND.fromText(o.effect),
          ...(o.made !== undefined && { made: { providerId: o.made, amount, name, gateway } }),
        });
        const after = effectView(sent(effect, 'effect'));
        await recordAudit(pool, {
          shopId: o.shop,
          by,
          action: 'commerce.effect.settled',
          subject: `${o.return}`,
          detail: {
            effect: after.effect,
            state: after.state,
            provider_id: after.provider_id ?? '',
          },
        });
        const id = after.provider_id === null ? '' : `  ${after.provider_id}`;
        print(`${after.effect}  ${after.state}  ${after.amount} ${after.currency}${id}`);
      });
    });
}
