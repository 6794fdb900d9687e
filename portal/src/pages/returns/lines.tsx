import { Button, Divider, Group, Stack, Text } from '@mantine/core';
import { Fragment, useState } from 'react';
import type { Return, ReturnLine } from '../../../../proto/gen/rms/portal/v1/return_pb.ts';
import { SecondLine } from '../../parts/cell-lines.tsx';
import { Facts } from '../../parts/facts.tsx';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { Meanings } from '../../parts/meanings.tsx';
import { OutsideLink } from '../../parts/outside-link.tsx';
import { Panel } from '../../parts/panel.tsx';
import { type Moment, Time } from '../../parts/time.tsx';
import { count, inWords } from '../../words.ts';
import { AmountText, isUnpaid, isZero } from './amount-text.tsx';

const GradeItems = lazyPart(async () => (await import('./inspect.tsx')).GradeItems);
const RecordDispositions = lazyPart(async () => (await import('./inspect.tsx')).RecordDispositions);

/** The line items with their amounts, gradings and dispositions, and what the shopper gets instead. */
export function LinesPanel({ about }: { readonly about: Return }) {
  const mayInspect = about.possible.includes('inspect');
  return (
    <Panel title="Items" actions={mayInspect && <InspectButtons about={about} />}>
      <Stack gap="md">
        {mayInspect && <Meanings of={['Grade', 'Disposition']} />}
        {about.lines.map((line, index) => (
          <Fragment key={line.id}>
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
function InspectButtons({ about }: { readonly about: Return }) {
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
      {Dialog && <Dialog about={about} returnId={about.summary?.id ?? '0'} onClose={close} />}
    </Group>
  );
}

interface LineProps {
  readonly line: ReturnLine;
  readonly about: Return;
}

function Line({ line, about }: LineProps) {
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
          <AmountText amount={line.price} of={about} />
        </Text>
      </Group>
      <Facts
        rows={[
          ['Reason', [line.parentReason, line.reason].filter((text) => text !== '').join(': ')],
          ['The shopper gets', inWords(line.outcome)],
          ['Discount', <AmountText key="discount" amount={line.discount} of={about} minus />],
          ['Tax', <AmountText key="tax" amount={line.tax} of={about} />],
          [
            'Shipping',
            !isZero(line.refundShipping) && (
              <AmountText key="shipping" amount={line.refundShipping} of={about} />
            ),
          ],
          [
            isUnpaid(about) ? 'Would have been refunded' : 'Refund',
            <AmountText key="refund" amount={line.refund} of={about} />,
          ],
          ['Arrived', line.returnedAt && <Time key="arrived" at={line.returnedAt} />],
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
            line.uploads.length > 0 && <Links key="uploads" urls={line.uploads} word="upload" />,
          ],
        ]}
      />
    </div>
  );
}

function Grading({ line: { condition } }: { readonly line: ReturnLine }) {
  if (!condition) return null;
  const { title, description, note, returnProcessor, inspectedAt, images } = condition;
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

function Disposition({ line: { disposition } }: { readonly line: ReturnLine }) {
  if (!disposition) return null;
  const { outcome, note, returnProcessor, inspectedAt } = disposition;
  return (
    <>
      {inWords(outcome)}
      {note !== '' && `: ${note}`}
      <Inspection inspector={returnProcessor} at={inspectedAt} />
    </>
  );
}

function Inspection(o: { readonly inspector: string; readonly at: Moment | undefined }) {
  return (
    <SecondLine>
      {o.inspector !== '' && `${o.inspector}, `}inspected <Time at={o.at} />
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
      {about.exchanges.map(({ title, sku, total, outOfStock }, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: exchange items have no id here, and their order never changes.
        <Group key={index} justify="space-between" wrap="nowrap" align="flex-start">
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
