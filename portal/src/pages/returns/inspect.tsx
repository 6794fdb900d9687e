import { Divider, Group, NativeSelect, Stack, Text, TextInput } from '@mantine/core';
import { Fragment, useState } from 'react';
import { DispositionsService } from '../../../../proto/gen/rms/dispositions/v1/dispositions_pb.ts';
import {
  DispositionOutcomeSchema,
  type LineItem,
} from '../../../../proto/gen/rms/returns/v1/return_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import type { Term } from '../../meanings.ts';
import { FormModal } from '../../parts/dialog/form-modal.tsx';
import { Meanings } from '../../parts/meanings.tsx';
import { tooLong } from '../../parts/text/too-long.ts';
import { enumOf, inWords, wordOf } from '../../words.ts';
import type { ReturnDialogProps } from './check.ts';

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
export function GradeItems({ about, onClose }: ReturnDialogProps) {
  const { run, isPending, error } = useWrite(DispositionsService.method.gradeItems, {
    done: 'The gradings are recorded.',
    inline: true,
    onSuccess: onClose,
  });
  return (
    <Inspection
      title="Grade the items"
      label="Condition"
      term="Grade"
      money="The money of the return stays as it is."
      choices={GRADES}
      lines={about.lineItems}
      currentOf={({ condition }) => condition?.title}
      pending={isPending}
      error={error}
      onClose={onClose}
      onSubmit={(findings) =>
        run({
          returnId: about.id,
          items: findings.map(({ finding: category, ...item }) => ({ category, ...item })),
        })
      }
    />
  );
}

/** Records what becomes of the line items. */
export function RecordDispositions({ about, onClose }: ReturnDialogProps) {
  const { run, isPending, error } = useWrite(DispositionsService.method.assess, {
    done: 'The dispositions are recorded.',
    inline: true,
    onSuccess: onClose,
  });
  return (
    <Inspection
      title="What becomes of the items"
      label="Disposition"
      term="Disposition"
      money="The money of the return stays as it is, unless your policy pays what arrived: then goods with any disposition but “Missing” are paid."
      hasUnits
      choices={OUTCOMES}
      lines={about.lineItems}
      currentOf={({ disposition }) =>
        disposition && inWords(wordOf(DispositionOutcomeSchema, disposition.outcome))
      }
      pending={isPending}
      error={error}
      onClose={onClose}
      onSubmit={(findings) =>
        run({
          returnId: about.id,
          items: findings.map(({ finding, ...item }) => ({
            outcome: enumOf(DispositionOutcomeSchema, finding),
            ...item,
          })),
        })
      }
    />
  );
}

interface Finding {
  readonly lineItemId: bigint;
  readonly finding: string;
  /** Absent when empty. */
  readonly note?: string;
  /** The units that it is about; absent for all. */
  readonly quantity?: number;
}

function isNoteAlone({ finding, note = '' }: Finding): boolean {
  return finding === '' && note.trim() !== '';
}

interface InspectionProps {
  readonly title: string;
  readonly label: string;
  /** The word that is explained. */
  readonly term: Term;
  /** What it means for the money of the return. */
  readonly money: string;
  /** Whether it may be about some units of a line item. */
  readonly hasUnits?: boolean;
  readonly choices: Choices;
  readonly lines: readonly LineItem[];
  readonly currentOf: (line: LineItem) => string | undefined;
  readonly pending: boolean;
  readonly error: unknown;
  readonly onClose: () => void;
  readonly onSubmit: (findings: Finding[]) => void;
}

/** A choice and a note for each line item. Only those with a choice are recorded. */
function Inspection(o: InspectionProps) {
  const [findings, setFindings] = useState<ReadonlyMap<bigint, Finding>>(new Map());
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
      onSubmit={() => o.onSubmit(items)}
    >
      <Meanings of={[o.term]} />
      <Text size="sm">
        It replaces what was recorded before, which stays in the timeline. {o.money}
      </Text>
      {o.lines.map((line, place) => (
        <Fragment key={String(line.lineItemId)}>
          {place > 0 && <Divider />}
          <LineFields
            {...{ line, label: o.label, choices: o.choices, current: o.currentOf(line) }}
            hasUnits={(o.hasUnits ?? false) && line.quantity > 1}
            isFirst={place === 0}
            value={findings.get(line.lineItemId) ?? { lineItemId: line.lineItemId, finding: '' }}
            onChange={change}
          />
        </Fragment>
      ))}
      {isTooMany && <Text size="sm">Record at most {MAX_ITEMS} items at once.</Text>}
    </FormModal>
  );
}

function LineFields(o: {
  readonly line: LineItem;
  readonly label: string;
  readonly choices: Choices;
  readonly current: string | undefined;
  readonly isFirst: boolean;
  readonly hasUnits: boolean;
  readonly value: Finding;
  readonly onChange: (value: Finding) => void;
}) {
  const { line, value } = o;
  const { note = '', ...choice } = value;
  const { quantity, ...whole } = value;
  const hasUnits = o.hasUnits && value.finding !== '' && value.finding !== 'missing';
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
          onChange={({ currentTarget }) => o.onChange({ ...whole, finding: currentTarget.value })}
          {...(o.isFirst && { 'data-autofocus': true })}
        />
        {hasUnits && (
          <TextInput
            type="number"
            label="Units"
            placeholder="All"
            min={1}
            max={line.quantity}
            value={quantity ?? ''}
            onChange={({ currentTarget: { value: text } }) =>
              o.onChange({ ...whole, ...(text !== '' && { quantity: Number(text) }) })
            }
          />
        )}
        <TextInput
          label="Note"
          error={tooLong(note, NOTE_MAX)}
          value={note}
          onChange={({ currentTarget: { value: text } }) =>
            o.onChange({ ...choice, ...(text !== '' && { note: text }) })
          }
        />
      </Group>
    </Stack>
  );
}
