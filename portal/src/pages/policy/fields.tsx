import {
  Button,
  Checkbox,
  Group,
  NativeSelect,
  Radio,
  SimpleGrid,
  Stack,
  Textarea,
  TextInput,
} from '@mantine/core';
import type { ReactNode } from 'react';
import type { ReturnWindow_Start as Start } from '../../../../proto/gen/rms/returns/v1/policy_pb.ts';
import { RowButton } from '../../parts/row-button.tsx';
import { type ItemsDraft, problemsOfItems, type WindowDraft } from './draft.ts';
import styles from './policy.module.css';
import { STARTS } from './sentences.ts';

// Fields that several parts of a policy have.

/** At most so many exceptions, reasons and fees. */
const ENTRIES_MAX = 50;

/** A number of days and the event from which they count. */
export function WindowFields(o: {
  readonly value: WindowDraft;
  readonly onChange: (value: WindowDraft) => void;
}) {
  return (
    <SimpleGrid cols={{ base: 1, sm: 2 }}>
      <TextInput
        type="number"
        min={0}
        max={3_650}
        label="Days"
        description="Leave it empty for no time limit."
        value={o.value.days}
        onChange={({ currentTarget }) => o.onChange({ ...o.value, days: currentTarget.value })}
      />
      <NativeSelect
        label="Counted from"
        description="If its time is not known, the next one counts."
        value={String(o.value.from)}
        onChange={({ currentTarget }) =>
          // The options are values of the enum.
          o.onChange({ ...o.value, from: Number(currentTarget.value) as Start })
        }
        data={STARTS.map(([value, label]) => ({ value: String(value), label }))}
      />
    </SimpleGrid>
  );
}

/** Lists of goods, one in a line. */
export function ItemsFields(o: {
  readonly value: ItemsDraft;
  readonly onChange: (value: ItemsDraft) => void;
}) {
  const problems = problemsOfItems(o.value);
  const list = (name: keyof ItemsDraft, label: string, about: string) => (
    <Textarea
      label={label}
      description={about}
      error={problems[name]}
      rows={3}
      value={o.value[name]}
      onChange={({ currentTarget }) => o.onChange({ ...o.value, [name]: currentTarget.value })}
    />
  );
  return (
    <SimpleGrid cols={{ base: 1, sm: 3 }}>
      {list('skus', 'SKUs', 'One in a line. One * stands for any text.')}
      {list('productIds', 'Products', 'Their numbers at your platform, one in a line.')}
      {list('tags', 'Tags', 'Tags of products, one in a line.')}
    </SimpleGrid>
  );
}

/** Values of which any number can be chosen. None means all. */
export function Several<T extends string | number>(o: {
  readonly label: string;
  readonly about?: string;
  readonly value: readonly T[];
  readonly all: readonly (readonly [T, string])[];
  readonly onChange: (value: T[]) => void;
}) {
  return (
    <Checkbox.Group
      label={o.label}
      description={o.about}
      value={o.value.map(String)}
      onChange={(chosen) =>
        o.onChange(o.all.map(([value]) => value).filter((value) => chosen.includes(String(value))))
      }
    >
      <Stack gap="xs" mt="xs">
        {o.all.map(([value, label]) => (
          <Checkbox key={value} value={String(value)} label={capital(label)} />
        ))}
      </Stack>
    </Checkbox.Group>
  );
}

/** One of a few values, each with a sentence. */
export function OneOf<T extends number>(o: {
  readonly name: string;
  readonly label: string;
  readonly value: T;
  readonly all: readonly (readonly [T, string, string])[];
  readonly onChange: (value: T) => void;
}) {
  return (
    <Radio.Group
      name={o.name}
      label={o.label}
      value={String(o.value)}
      // The options are values of the enum.
      onChange={(value) => o.onChange(Number(value) as T)}
    >
      <Stack gap="xs" mt="xs">
        {o.all.map(([value, label, sentence]) => (
          <Radio key={value} value={String(value)} label={label} description={sentence} />
        ))}
      </Stack>
    </Radio.Group>
  );
}

/** An amount in the currency of the shop, or another decimal number. */
export function DecimalField(o: {
  readonly label: string;
  readonly about?: string;
  readonly required?: boolean;
  readonly value: string;
  readonly onChange: (value: string) => void;
}) {
  const isWrong = o.value !== '' && !/^\d{1,12}(?:\.\d{1,3})?$/.test(o.value.trim());
  return (
    <TextInput
      label={o.label}
      description={o.about}
      required={o.required ?? false}
      inputMode="decimal"
      value={o.value}
      onChange={({ currentTarget }) => o.onChange(currentTarget.value)}
      error={isWrong ? 'Write a number such as 12.50.' : undefined}
    />
  );
}

/** A list of up to 50 entries, each with its own fields. */
export function Entries<T>(o: {
  /** What one is called, such as `reason`. */
  readonly noun: string;
  readonly value: readonly T[];
  readonly fresh: T;
  readonly onChange: (value: T[]) => void;
  readonly children: (entry: T, change: (part: Partial<T>) => void) => ReactNode;
}) {
  const { value, noun, onChange } = o;
  return (
    <Stack gap="md" align="stretch">
      {value.map((entry, place) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: an entry is nothing but its fields, which hold no state.
        <fieldset key={place} className={styles.entry}>
          <legend className={styles.legend}>{`${capital(noun)} ${place + 1}`}</legend>
          <Stack gap="sm">
            {o.children(entry, (part) => onChange(value.with(place, { ...entry, ...part })))}
            <Group>
              <RowButton
                text="Remove"
                label={`Remove ${noun} ${place + 1}`}
                onClick={() => onChange(value.toSpliced(place, 1))}
              />
              {place > 0 && (
                <RowButton
                  text="Move up"
                  label={`Move ${noun} ${place + 1} up`}
                  onClick={() => onChange(value.toSpliced(place, 1).toSpliced(place - 1, 0, entry))}
                />
              )}
            </Group>
          </Stack>
        </fieldset>
      ))}
      <Group>
        <Button
          size="xs"
          variant="default"
          disabled={value.length >= ENTRIES_MAX}
          onClick={() => onChange([...value, o.fresh])}
        >
          {`Add ${/^[aeiou]/.test(noun) ? 'an' : 'a'} ${noun}`}
        </Button>
      </Group>
    </Stack>
  );
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
