import { Button, Divider, Group, Stack, Text } from '@mantine/core';
import { Fragment, useState } from 'react';
import {
  DispositionOutcomeSchema,
  type LineItem,
  LineOutcomeSchema,
  type Return,
} from '../../../../proto/gen/rms/returns/v1/return_pb.ts';
import { SecondLine } from '../../parts/cell-lines.tsx';
import { Facts } from '../../parts/facts.tsx';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { Meanings } from '../../parts/meanings.tsx';
import { OutsideLink } from '../../parts/outside-link.tsx';
import { Panel } from '../../parts/panel.tsx';
import { type Moment, Time } from '../../parts/time/time.tsx';
import { useSession } from '../../session/session.tsx';
import { count, inWords, wordOf } from '../../words.ts';
import { AmountText, isUnpaid, isZero, lineAmount } from './amount-text.tsx';
import type { Checked } from './check.ts';

const GradeItems = lazyPart(async () => (await import('./inspect.tsx')).GradeItems);
const RecordDispositions = lazyPart(async () => (await import('./inspect.tsx')).RecordDispositions);

/** The line items with their amounts, gradings and dispositions, and what the shopper gets instead. */
export function LinesPanel({ about, check }: Checked) {
  const mayInspect = useSession().canCall('DispositionsService/GradeItems');
  return (
    <Panel title="Items" actions={mayInspect && <InspectButtons {...{ about, check }} />}>
      <Stack gap="md">
        {mayInspect && <Meanings of={['Grade', 'Disposition']} />}
        {about.lineItems.map((line, index) => (
          <Fragment key={String(line.lineItemId)}>
            {index > 0 && <Divider />}
            <Line line={line} about={about} />
          </Fragment>
        ))}
        {about.exchanges.length > 0 && <Exchanges about={about} />}
      </Stack>
    </Panel>
  );
}

const INSPECTIONS = { grade: GradeItems, dispose: RecordDispositions };

/** Records what the warehouse found, and what becomes of the goods. */
function InspectButtons({ about, check }: Checked) {
  const [dialog, setDialog] = useState<keyof typeof INSPECTIONS>();
  const Dialog = dialog && INSPECTIONS[dialog];
  const close = () => setDialog(undefined);
  return (
    <Group gap="xs">
      <Button size="xs" variant="default" onClick={() => setDialog('grade')}>
        Grade
      </Button>
      <Button size="xs" variant="default" onClick={() => setDialog('dispose')}>
        Set dispositions
      </Button>
      {Dialog && <Dialog {...{ about, check }} onClose={close} />}
    </Group>
  );
}

interface LineProps {
  readonly line: LineItem;
  readonly about: Return;
}

function Line({ line, about }: LineProps) {
  const shipping = lineAmount(line, 'refundShipping');
  return (
    <div>
      <Group justify="space-between" align="flex-start" wrap="nowrap" mb="xs">
        <div>
          <Text fw={600}>
            {line.quantity} × {line.title}
          </Text>
          <Text size="sm" c="dimmed">
            {[line.sku, line.variantTitle].filter((text) => text !== '').join(' · ')}
          </Text>
        </div>
        <Text size="sm" ta="right" component="div">
          <AmountText amount={lineAmount(line, 'price')} of={about} />
        </Text>
      </Group>
      <Facts
        rows={[
          ['Reason', [line.parentReason, line.reason].filter((text) => text !== '').join(': ')],
          ['The shopper gets', inWords(wordOf(LineOutcomeSchema, line.outcome))],
          [
            'Discount',
            <AmountText key="discount" amount={lineAmount(line, 'discount')} of={about} minus />,
          ],
          ['Tax', <AmountText key="tax" amount={lineAmount(line, 'tax')} of={about} />],
          [
            'Shipping',
            !isZero(shipping) && <AmountText key="shipping" amount={shipping} of={about} />,
          ],
          [
            isUnpaid(about) ? 'Would have been refunded' : 'Refund',
            <AmountText key="refund" amount={lineAmount(line, 'refund')} of={about} />,
          ],
          ['Arrived', line.returnedAt && <Arrived key="arrived" line={line} />],
          ['Grading', line.condition && <Grading key="grading" line={line} />],
          ['Disposition', line.disposition && <Disposition key="disposition" line={line} />],
          [
            'Picture',
            line.image !== '' && (
              <OutsideLink key="image" url={line.image}>
                Open the picture
              </OutsideLink>
            ),
          ],
          [
            'Uploads',
            line.uploads.length > 0 && (
              <Links key="uploads" urls={line.uploads.map(({ url }) => url)} word="upload" />
            ),
          ],
        ]}
      />
    </div>
  );
}

function Arrived({ line }: { readonly line: LineItem }) {
  const { quantity, arrivedQuantity: arrived, damagedQuantity: damaged, returnedAt } = line;
  return (
    <>
      {arrived || quantity} of {count(quantity, 'unit')}
      {damaged > 0 && `, ${damaged} damaged`}
      <SecondLine>
        <Time at={returnedAt} />
      </SecondLine>
    </>
  );
}

function Grading({ line: { condition } }: { readonly line: LineItem }) {
  if (!condition) return null;
  const { title, description, note = '', returnProcessor, inspectedAt, images } = condition;
  return (
    <>
      {title}
      {description !== '' && `: ${description}`}
      {note !== '' && ` (${note})`}
      <Inspection inspector={returnProcessor} at={inspectedAt} />
      {images.length > 0 && <Links urls={images} word="picture" />}
    </>
  );
}

function Disposition({ line: { disposition } }: { readonly line: LineItem }) {
  if (!disposition) return null;
  const { outcome, quantity, note = '', returnProcessor, inspectedAt } = disposition;
  return (
    <>
      {inWords(wordOf(DispositionOutcomeSchema, outcome))}
      {quantity !== undefined && `, ${count(quantity, 'unit')}`}
      {note !== '' && `: ${note}`}
      <Inspection inspector={returnProcessor} at={inspectedAt} />
    </>
  );
}

function Inspection(o: {
  readonly inspector: string | undefined;
  readonly at: Moment | undefined;
}) {
  return (
    <SecondLine>
      {o.inspector && `${o.inspector}, `}inspected <Time at={o.at} />
    </SecondLine>
  );
}

function Links({ urls, word }: { readonly urls: readonly string[]; readonly word: string }) {
  return (
    <Group gap="xs">
      {urls.map((url, index) => (
        <OutsideLink key={url} url={url}>
          {inWords(word)} {index + 1}
        </OutsideLink>
      ))}
    </Group>
  );
}

function Exchanges({ about }: { readonly about: Return }) {
  return (
    <div>
      <Divider mb="sm" />
      <Text fw={600} mb="xs">
        The shopper gets {count(about.exchanges.length, 'item')} instead
      </Text>
      {about.exchanges.map(({ exchangeId, title, sku, total, outOfStock }) => (
        <Group key={String(exchangeId)} justify="space-between" wrap="nowrap" align="flex-start">
          <Text size="sm">
            {title} {sku !== '' && `(${sku})`} {outOfStock && '– out of stock'}
          </Text>
          <Text size="sm" component="div">
            <AmountText amount={total} of={about} minus />
          </Text>
        </Group>
      ))}
    </div>
  );
}
