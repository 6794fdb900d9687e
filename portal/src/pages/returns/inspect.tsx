import { Divider, Group, NativeSelect, Stack, Text, TextInput } from '@mantine/core';
import { Fragment, useState } from 'react';
import type { ReturnLine } from '../../../../proto/gen/rms/portal/v1/return_pb.ts';
import { ReturnsService } from '../../../../proto/gen/rms/portal/v1/returns_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import type { Term } from '../../meanings.ts';
import { FormModal } from '../../parts/form-modal.tsx';
import { Meanings } from '../../parts/meanings.tsx';
import { tooLong } from '../../parts/too-long.ts';
import { inWords } from '../../words.ts';
import type { ReturnDialogProps } from './dialog-props.ts';

/** The most characters of a note. */
const NOTE_MAX = 65_535;

/** The most line items that one call records. */
const MAX_ITEMS = 30;

type Choices = readonly (readonly [string, string])[];

const GRADES: Choices = [
  ['grade_a', 'Grade A'],
  ['grade_b', 'Grade B'],
  ['grade_c', 'Grade C'],
  ['grade_d', 'Grade D'],
  ['incorrect_item', 'Incorrect item'],
  ['missing', 'Missing'],
  ['junk', 'Junk'],
];

const OUTCOMES: Choices = ['back_to_stock', 'resale_hold', 'recycle', 'donate', 'missing'].map(
  (outcome) => [outcome, inWords(outcome)],
);

/** Records the condition of the line items. */
export function GradeItems({ about, returnId, onClose }: ReturnDialogProps) {
  const { run, isPending, error } = useWrite(ReturnsService.method.gradeItems, {
    done: 'The gradings are recorded.',
    inline: true,
    onSuccess: onClose,
  });
  return (
    <Inspection
      title="Grade the items"
      label="Condition"
      term="Grade"
      choices={GRADES}
      lines={about.lines}
      currentOf={({ condition }) => condition?.title}
      pending={isPending}
      error={error}
      onClose={onClose}
      onSubmit={(found) => run({ returnId, ...found })}
    />
  );
}

/** Records what becomes of the line items. */
export function RecordDispositions({ about, returnId, onClose }: ReturnDialogProps) {
  const { run, isPending, error } = useWrite(ReturnsService.method.recordDispositions, {
    done: 'The dispositions are recorded.',
    inline: true,
    onSuccess: onClose,
  });
  return (
    <Inspection
      title="What becomes of the items"
      label="Disposition"
      term="Disposition"
      choices={OUTCOMES}
      lines={about.lines}
      currentOf={({ disposition }) => disposition && inWords(disposition.outcome)}
      pending={isPending}
      error={error}
      onClose={onClose}
      onSubmit={(found) => run({ returnId, ...found })}
    />
  );
}

interface Finding {
  readonly lineItemId: string;
  readonly finding: string;
  readonly note: string;
}

function isNoteAlone({ finding, note }: Finding): boolean {
  return finding === '' && note.trim() !== '';
}

interface InspectionProps {
  readonly title: string;
  readonly label: string;
  /** The word that is explained. */
  readonly term: Term;
  readonly choices: Choices;
  readonly lines: readonly ReturnLine[];
  readonly currentOf: (line: ReturnLine) => string | undefined;
  readonly pending: boolean;
  readonly error: unknown;
  readonly onClose: () => void;
  readonly onSubmit: (found: { items: Finding[] }) => void;
}

/** A choice and a note for each line item. Only those with a choice are recorded. */
function Inspection(o: InspectionProps) {
  const [findings, setFindings] = useState<ReadonlyMap<string, Finding>>(new Map());
  const items = [...findings.values()].filter(({ finding }) => finding !== '');
  const change = (next: Finding) => {
    setFindings(new Map(findings).set(next.lineItemId, next));
  };
  const hasNoteAlone = [...findings.values()].some(isNoteAlone);
  const isTooMany = items.length > MAX_ITEMS;
  return (
    <FormModal
      title={o.title}
      onClose={o.onClose}
      submit={items.length > 1 ? `Record ${items.length} items` : 'Record'}
      pending={o.pending}
      error={o.error}
      disabled={items.length === 0 || isTooMany || hasNoteAlone}
      onSubmit={() => o.onSubmit({ items })}
    >
      <Meanings of={[o.term]} />
      <Text size="sm">
        It replaces what was recorded before, which stays in the timeline. The money of the return
        stays as it is.
      </Text>
      {o.lines.map((line, place) => (
        <Fragment key={line.id}>
          {place > 0 && <Divider />}
          <LineFields
            {...{ line, label: o.label, choices: o.choices, current: o.currentOf(line) }}
            isFirst={place === 0}
            value={findings.get(line.id) ?? { lineItemId: line.id, finding: '', note: '' }}
            onChange={change}
          />
        </Fragment>
      ))}
      {isTooMany && <Text size="sm">Record at most {MAX_ITEMS} items at once.</Text>}
    </FormModal>
  );
}

function LineFields(o: {
  readonly line: ReturnLine;
  readonly label: string;
  readonly choices: Choices;
  readonly current: string | undefined;
  readonly isFirst: boolean;
  readonly value: Finding;
  readonly onChange: (value: Finding) => void;
}) {
  const { line, value } = o;
  const name = `${line.quantity} × ${line.title}`;
  return (
    <Stack gap={4} component="fieldset" style={{ border: 0, margin: 0, padding: 0 }}>
      <Text component="legend" size="sm" fw={600} p={0}>
        {name}
        {line.sku !== '' && ` (${line.sku})`}
      </Text>
      <Group gap="sm" grow align="flex-start">
        <NativeSelect
          label={o.label}
          data={[
            { value: '', label: o.current ? `${o.current} (as it is)` : 'Not recorded' },
            ...o.choices.map(([word, text]) => ({ value: word, label: text })),
          ]}
          value={value.finding}
          error={isNoteAlone(value) && 'Choose, so that the note is recorded.'}
          onChange={({ currentTarget }) => o.onChange({ ...value, finding: currentTarget.value })}
          {...(o.isFirst && { 'data-autofocus': true })}
        />
        <TextInput
          label="Note"
          error={tooLong(value.note, NOTE_MAX)}
          value={value.note}
          onChange={({ currentTarget }) => o.onChange({ ...value, note: currentTarget.value })}
        />
      </Group>
    </Stack>
  );
}
