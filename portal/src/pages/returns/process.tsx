import { Alert, Text } from '@mantine/core';
import { useState } from 'react';
import type { Return, ReturnLine } from '../../../../proto/gen/rms/portal/v1/return_pb.ts';
import { ReturnsService } from '../../../../proto/gen/rms/portal/v1/returns_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import { Bullets } from '../../parts/bullets.tsx';
import { FormModal } from '../../parts/form-modal.tsx';
import { inWords } from '../../words.ts';
import type { ReturnDialogProps } from './dialog-props.ts';

/** Results after which the page itself shows that the return is being processed, and then what was made. */
const QUEUED: ReadonlySet<string> = new Set(['queued', 'already_queued']);

export function Process({ about, returnId, onClose }: ReturnDialogProps) {
  const [refusal, setRefusal] = useState<string>();
  const { run, isPending, error } = useWrite(ReturnsService.method.processReturn, {
    inline: true,
    onSuccess: (response) => {
      if (QUEUED.has(response.result)) onClose();
      else setRefusal(response.message);
    },
  });
  return (
    <FormModal
      title={`Process the return of ${about.summary?.orderName ?? ''}?`}
      onClose={onClose}
      submit="Process the return"
      pending={isPending}
      error={error}
      disabled={refusal !== undefined}
      onSubmit={() => run({ returnId, shownEffects: about.processingDoes })}
    >
      <NotBack about={about} />
      <Missing about={about} />
      <Text size="sm">This will happen:</Text>
      <Bullets items={about.processingDoes.map((sentence) => [sentence, sentence])} />
      <Text size="sm">
        {needsDispositions(about) && 'Items without a disposition count as “Back to stock”. '}
        You can still record what becomes of the goods afterwards
        {needsDispositions(about) && ', but that changes no stock'}.
      </Text>
      {refusal && (
        <Alert color="red" role="alert" title="Nothing was processed">
          {refusal}
        </Alert>
      )}
    </FormModal>
  );
}

/** Whether processing decides what becomes of some goods, because nobody has. The shopper may keep them, too. */
function needsDispositions({ lines, returnMethod }: Return): boolean {
  return returnMethod !== 'keep_item' && lines.some(({ disposition }) => !disposition);
}

/** Says that processing pays for goods that did not come, which does not prevent the processing. */
function Missing({ about }: { readonly about: Return }) {
  const missing = about.lines.filter(({ disposition }) => disposition?.outcome === 'missing');
  if (missing.length === 0) return null;
  return (
    <Alert color="yellow" title="Goods are missing">
      {missing.map(({ title }) => `“${title}”`).join(', ')}: recorded as missing, but the whole
      return is paid. If it must not be, close this dialog and put the return into review.
    </Alert>
  );
}

/** Says that the goods are not back, which does not prevent the processing. */
function NotBack({ about }: { readonly about: Return }) {
  // Newest first.
  const { labels, lines } = about;
  const parcelsOf = ({ id }: ReturnLine) =>
    labels.filter(({ lineItemIds }) => lineItemIds.length === 0 || lineItemIds.includes(id));
  const awaited = lines.filter(
    (line) => !line.returnedAt && !parcelsOf(line).some(({ status }) => status === 'delivered'),
  );
  const hasParcel = labels.length > 0 || about.returnMethod === 'mail';
  if (!hasParcel || awaited.length === 0) return null;
  const stateOf = (line: ReturnLine) => inWords(parcelsOf(line)[0]?.status ?? 'no label');
  const states = new Set(awaited.map(stateOf));
  const [state = ''] = states;
  if (awaited.length === lines.length && states.size === 1) {
    return (
      <Alert color="yellow" title="The parcel has not arrived">
        {labels.length === 0 ? 'It has no label.' : `Its state is “${state}”.`}
      </Alert>
    );
  }
  return (
    <Alert color="yellow" title="Not all goods have arrived">
      {awaited.map((line) => `“${line.title}”: ${stateOf(line)}`).join(', ')}
    </Alert>
  );
}
