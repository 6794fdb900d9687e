import { useQuery } from '@connectrpc/connect-query';
import { Stack } from '@mantine/core';
import type {
  ArrivedItem,
  UnexpectedItem,
} from '../../../../proto/gen/rms/returns/v1/arrivals_pb.ts';
import type { Return } from '../../../../proto/gen/rms/returns/v1/return_pb.ts';
import { ReturnsService } from '../../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { Bullets } from '../../parts/bullets.tsx';
import { Facts } from '../../parts/facts.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Loaded } from '../../parts/states.tsx';
import { Time } from '../../parts/time/time.tsx';
import { count } from '../../words.ts';

/** What a warehouse counted, delivery by delivery, newest first. Units that were not announced are not paid. */
export function ArrivalsPanel({ about }: { readonly about: Return }) {
  const { listArrivals } = ReturnsService.method;
  const query = useQuery(listArrivals, { returnId: about.id });
  const titles = new Map(about.lineItems.map(({ lineItemId, title }) => [lineItemId, title]));
  return (
    <Panel
      title="Arrivals"
      about={
        about.unexpectedQuantity > 0 &&
        `${count(about.unexpectedQuantity, 'unit')} arrived without being announced, and ${about.unexpectedQuantity === 1 ? 'is' : 'are'} not paid.`
      }
    >
      <Loaded query={query}>
        {({ arrivals }) => (
          <Stack gap="md">
            {arrivals.map(({ id, arrivedAt, items, unexpected }) => (
              <Facts
                key={String(id)}
                rows={[
                  ['Arrived', <Time key="at" at={arrivedAt} />],
                  [
                    'Counted',
                    items.length > 0 && (
                      <Bullets
                        key="items"
                        items={items.map((item) => itemText(item, { titles, unexpected }))}
                      />
                    ),
                  ],
                  [
                    'Not announced',
                    others(unexpected).length > 0 && (
                      <Bullets key="unexpected" items={others(unexpected).map(unexpectedText)} />
                    ),
                  ],
                ]}
              />
            ))}
          </Stack>
        )}
      </Loaded>
    </Panel>
  );
}

/** What arrived and is none of the line items. Surplus units of one are in its own line. */
function others(unexpected: readonly UnexpectedItem[]): readonly UnexpectedItem[] {
  return unexpected.filter(({ lineItemId }) => lineItemId === 0n);
}

function itemText(
  { lineItemId, quantity, damagedQuantity, note }: ArrivedItem,
  o: {
    readonly titles: ReadonlyMap<bigint, string>;
    readonly unexpected: readonly UnexpectedItem[];
  },
): [string, string] {
  const surplus = o.unexpected.find((one) => one.lineItemId === lineItemId)?.quantity ?? 0;
  const parts = [
    `${quantity} × ${o.titles.get(lineItemId) ?? `line item ${lineItemId}`}`,
    ...(damagedQuantity > 0 ? [`${damagedQuantity} damaged`] : []),
    ...(surplus > 0 ? [`${surplus} not announced`] : []),
  ];
  return [String(lineItemId), `${parts.join(', ')}${note && `: ${note}`}`];
}

function unexpectedText(item: UnexpectedItem, at: number): [string, string] {
  const { quantity, title, sku, barcode, note } = item;
  const what = [title, sku, barcode].find((text) => text !== '') ?? 'unknown goods';
  return [String(at), `${quantity} × ${what}${note && `: ${note}`}`];
}
