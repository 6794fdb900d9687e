import { Alert, Button, Group, Radio, SimpleGrid, Stack, TextInput } from '@mantine/core';
import { type FormEvent, useState } from 'react';
import {
  GiftCardMode,
  LabelProvider,
  RestockMode,
  ReturnsService,
  type Settings,
} from '../../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import styles from '../../parts/dialog/dialog.module.css';
import { Unsaved } from '../../parts/dialog/unsaved.tsx';
import { Panel } from '../../parts/panel.tsx';
import { useSession } from '../../session/session.tsx';
import {
  type Edits,
  edited,
  type Name,
  overtaken,
  settingsOf,
  unsaved,
  type Values,
  valuesOf,
} from './settings-values.ts';

type Choice = readonly [value: number, label: string, sentence: string];

const RESTOCK: readonly Choice[] = [
  [RestockMode.OFF, 'By hand', 'We say nothing about stock. Your people or your systems count it.'],
  [
    RestockMode.WEBHOOK,
    'By a webhook',
    'When a return is processed, we send restock.requested for the goods that go back to stock.',
  ],
  [
    RestockMode.PROVIDER,
    'By the commerce platform',
    'When a return is processed, we ask your commerce platform to add the goods to its stock.',
  ],
];
const GIFT_CARDS: readonly Choice[] = [
  [
    GiftCardMode.PROVIDER,
    'The commerce platform',
    'We ask it for a gift card when a return is processed.',
  ],
  [
    GiftCardMode.EXTERNAL,
    'Another system',
    'We send giftcard.requested, and your system reports the gift card to our API.',
  ],
];
const LABELS: readonly Choice[] = [
  [LabelProvider.OWN, 'Your own systems', 'They report each label to our API.'],
  [
    LabelProvider.THIRD_PARTY,
    'A label provider',
    'We send label.request.issued, and the provider reports the label to our API.',
  ],
];

interface FieldProps {
  readonly values: Values;
  readonly onChange: (name: Name, value: string) => void;
}

/** The form of the settings, which sends only what was edited. */
export function SettingsForm({ settings }: { readonly settings: Settings }) {
  const stored = valuesOf(settings);
  const { links } = useSession();
  const [edits, setEdits] = useState<Edits>({});
  const { run, isPending } = useWrite(ReturnsService.method.updateSettings, {
    done: 'The settings are saved.',
  });
  // What was saved is no edit any more, also when the answer was lost.
  const open = unsaved(edits, stored);
  if (Object.keys(open).length < Object.keys(edits).length) setEdits(open);
  const isDirty = Object.keys(edits).length > 0;
  const fields: FieldProps = {
    values: {
      ...stored,
      ...Object.fromEntries(Object.entries(edits).map(([name, { value }]) => [name, value])),
    },
    onChange: (name, value) => setEdits(edited(edits, name, { value, stored: stored[name] })),
  };
  const save = (event: FormEvent) => {
    event.preventDefault();
    const [value, seen] = [settingsOf(edits, 'value', stored), settingsOf(edits, 'seen', stored)];
    run({ settings: value, expected: seen }, { settings: seen, expected: value });
  };
  return (
    <>
      <form onSubmit={save} data-unsaved={isDirty}>
        <fieldset className={styles.fields} disabled={isPending}>
          <Stack gap="md">
            <Panel title="Stock" about="What happens to the count of goods that go back to stock.">
              <Choices {...fields} name="restockMode" label="Who counts them" choices={RESTOCK} />
            </Panel>
            <Panel title="Gift cards" about="For shoppers who chose credit.">
              <Choices
                {...fields}
                name="giftCardMode"
                label="Who issues them"
                choices={GIFT_CARDS}
              />
            </Panel>
            <Panel title="Labels and parcels">
              <Stack gap="md">
                <Choices
                  {...fields}
                  name="labelProvider"
                  label="Who makes labels"
                  choices={LABELS}
                />
                <SimpleGrid cols={{ base: 1, sm: 3 }}>
                  <NumberField
                    {...fields}
                    name="lengthCm"
                    label="Length of a parcel, cm"
                    max={1_000}
                  />
                  <NumberField
                    {...fields}
                    name="widthCm"
                    label="Width of a parcel, cm"
                    max={1_000}
                  />
                  <NumberField
                    {...fields}
                    name="heightCm"
                    label="Height of a parcel, cm"
                    max={1_000}
                  />
                </SimpleGrid>
              </Stack>
            </Panel>
            <Panel
              title="Page for shoppers"
              about="Where shoppers find their order and return something, without an account. It is off as long as it has no name."
            >
              <Stack gap="md">
                <TextField
                  {...fields}
                  name="handle"
                  label="Name in its address"
                  about={`The page is at ${links?.baseUrl ?? ''}/r/${fields.values.handle || '…'}. 3 to 40 of a to z, 0 to 9 and -. Another name ends all links that shoppers have.`}
                  pattern="[a-z0-9\-]{3,40}"
                />
                <SimpleGrid cols={{ base: 1, sm: 2 }}>
                  <TextField
                    {...fields}
                    name="accent"
                    label="Colour of buttons and links"
                    about="As #rrggbb; empty: blue. We darken or lighten it as far as texts need."
                    pattern="#[0-9A-Fa-f]{6}"
                  />
                  <TextField
                    {...fields}
                    name="supportEmail"
                    label="E-mail address for questions"
                    about="Shown on each page; may be empty."
                  />
                </SimpleGrid>
              </Stack>
            </Panel>
            <Panel title="Times">
              <SimpleGrid cols={{ base: 1, sm: 2 }}>
                <NumberField
                  {...fields}
                  name="expiryDays"
                  label="Days until a return expires"
                  about="They count from the first label. A return whose goods were not sent by then expires; one whose goods arrive later opens again."
                  max={365}
                />
                <NumberField
                  {...fields}
                  name="processingRetryMinutes"
                  label="Minutes in which we try again"
                  about="For so long we repeat a request that your commerce platform could not serve at the moment."
                  max={1_440}
                />
              </SimpleGrid>
            </Panel>
          </Stack>
        </fieldset>
        <Overtaken edits={edits} stored={stored} onChange={setEdits} />
        <Group mt="md">
          <Button type="submit" loading={isPending} disabled={!isDirty}>
            Save
          </Button>
          <Button variant="default" disabled={!isDirty || isPending} onClick={() => setEdits({})}>
            Discard
          </Button>
        </Group>
      </form>
      <Unsaved when={isDirty} />
    </>
  );
}

const NAMES: Readonly<Record<Name, string>> = {
  restockMode: 'who counts the stock',
  giftCardMode: 'who issues gift cards',
  labelProvider: 'who makes labels',
  expiryDays: 'the days until a return expires',
  processingRetryMinutes: 'the minutes in which we try again',
  lengthCm: 'the length of a parcel',
  widthCm: 'the width of a parcel',
  heightCm: 'the height of a parcel',
  handle: 'the name of the page for shoppers',
  accent: 'the colour of the page for shoppers',
  supportEmail: 'the e-mail address for questions',
};

/** What a colleague has changed while the reader edited it, and the choice between both. */
function Overtaken(o: {
  readonly edits: Edits;
  readonly stored: Values;
  readonly onChange: (edits: Edits) => void;
}) {
  const names = overtaken(o.edits, o.stored);
  if (names.length === 0) return null;
  const texts = names.map((name) => `${NAMES[name]}: now ${textOf(name, o.stored[name])}`);
  const without = Object.entries(o.edits).filter(([name]) => !names.includes(name as Name));
  const keep = () => {
    const mine = names.map((name) => [
      name,
      { seen: o.stored[name], value: o.edits[name]?.value ?? '' },
    ]);
    o.onChange({ ...o.edits, ...Object.fromEntries(mine) });
  };
  return (
    <Alert mt="md" color="yellow" role="alert" title="A colleague has changed this in the meantime">
      {texts.join('; ')}.
      <Group mt="sm" gap="xs">
        <Button size="xs" variant="default" onClick={() => o.onChange(Object.fromEntries(without))}>
          Take theirs
        </Button>
        <Button size="xs" variant="default" onClick={keep}>
          Keep mine
        </Button>
      </Group>
    </Alert>
  );
}

const CHOICES: Readonly<Partial<Record<Name, readonly Choice[]>>> = {
  restockMode: RESTOCK,
  giftCardMode: GIFT_CARDS,
  labelProvider: LABELS,
};

function textOf(name: Name, value: string): string {
  const choice = CHOICES[name]?.find(([number]) => String(number) === value);
  return choice ? `“${choice[1]}”` : value;
}

function Choices(
  o: FieldProps & {
    readonly name: Name;
    readonly label: string;
    readonly choices: readonly Choice[];
  },
) {
  return (
    <Radio.Group
      name={o.name}
      label={o.label}
      value={o.values[o.name]}
      onChange={(value) => o.onChange(o.name, value)}
    >
      <Stack gap="xs" mt="xs">
        {o.choices.map(([value, label, sentence]) => (
          <Radio key={value} value={String(value)} label={label} description={sentence} />
        ))}
      </Stack>
    </Radio.Group>
  );
}

function TextField(
  o: FieldProps & {
    readonly name: Name;
    readonly label: string;
    readonly about: string;
    readonly pattern?: string;
  },
) {
  return (
    <TextInput
      label={o.label}
      description={o.about}
      pattern={o.pattern}
      value={o.values[o.name]}
      onChange={({ currentTarget }) => o.onChange(o.name, currentTarget.value)}
    />
  );
}

function NumberField(
  o: FieldProps & {
    readonly name: Name;
    readonly label: string;
    readonly about?: string;
    readonly max: number;
  },
) {
  return (
    <TextInput
      type="number"
      min={1}
      max={o.max}
      required
      withAsterisk={false}
      label={o.label}
      description={o.about}
      value={o.values[o.name]}
      onChange={({ currentTarget }) => o.onChange(o.name, currentTarget.value)}
    />
  );
}
