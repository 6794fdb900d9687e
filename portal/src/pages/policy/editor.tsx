import { Checkbox, NativeSelect, SimpleGrid, Stack, TextInput } from '@mantine/core';
import type { ReactNode } from 'react';
import {
  AutomaticProcessing_Moment as Moment,
  ReturnWindow_Start as Start,
} from '../../../../proto/gen/rms/returns/v1/policy_pb.ts';
import { Outcome, ReturnMethod } from '../../../../proto/gen/rms/returns/v1/return_pb.ts';
import { Fold } from '../../parts/fold.tsx';
import { Panel } from '../../parts/panel.tsx';
import {
  type Draft,
  type ExceptionDraft,
  type FeeDraft,
  NO_ITEMS,
  type Part,
  type ReasonDraft,
} from './draft.ts';
import { DecimalField, Entries, ItemsFields, OneOf, Several, WindowFields } from './fields.tsx';
import styles from './policy.module.css';
import {
  BASES,
  METHODS,
  MOMENTS,
  OUTCOMES,
  PART_TITLES,
  reasonName,
  sentencesOf,
  WITHDRAWALS,
} from './sentences.ts';

type Change = <P extends Part>(part: P, value: Draft[P]) => void;

interface FieldsProps {
  readonly draft: Draft;
  readonly change: Change;
  readonly currency: string;
}

/**
 * Every rule as a plain sentence, with the fields that change it below.
 *
 * @param o.change undefined for readers who may not change the policy.
 */
export function Editor({
  change,
  ...o
}: Omit<FieldsProps, 'change'> & { readonly change: Change | undefined }) {
  return (
    <Stack gap="md">
      {(Object.keys(PART_TITLES) as Part[]).map((part) => (
        <Panel key={part} title={PART_TITLES[part]}>
          <Sentences part={part} {...o} />
          {change && (
            <Fold title={`Change: ${PART_TITLES[part].toLowerCase()}`}>
              <Stack gap="sm" mt="sm">
                {FIELDS[part]({ ...o, change })}
              </Stack>
            </Fold>
          )}
        </Panel>
      ))}
    </Stack>
  );
}

/** What one part says. */
export function Sentences(o: Pick<FieldsProps, 'draft' | 'currency'> & { readonly part: Part }) {
  return [...new Set(sentencesOf(o.part, o.draft, o.currency))].map((sentence) => (
    <p key={sentence} className={styles.rule}>
      {sentence}
    </p>
  ));
}

/** The fields of each part. */
const FIELDS: Readonly<Record<Part, (o: FieldsProps) => ReactNode>> = {
  window: ({ draft, change }) => (
    <WindowFields value={draft.window} onChange={(window) => change('window', window)} />
  ),
  finalSale: ({ draft, change }) => (
    <ItemsFields value={draft.finalSale} onChange={(items) => change('finalSale', items)} />
  ),
  exceptions: ({ draft, change }) => (
    <Exceptions value={draft.exceptions} onChange={(value) => change('exceptions', value)} />
  ),
  countries: ({ draft, change }) => (
    <TextInput
      label="Countries"
      description="Codes of two letters with commas between them, such as DE, FR. Empty: all."
      pattern="[A-Za-z]{2}([\s,]+[A-Za-z]{2})*[\s,]*"
      value={draft.countries}
      onChange={({ currentTarget }) => change('countries', currentTarget.value)}
    />
  ),
  outcomes: ({ draft, change }) => (
    <Several
      label="What shoppers may choose"
      about="None chosen: all."
      value={draft.outcomes}
      all={OUTCOMES}
      onChange={(value) => change('outcomes', value)}
    />
  ),
  returnMethods: ({ draft, change }) => (
    <Several
      label="Ways that are offered"
      about="None chosen: all."
      value={draft.returnMethods}
      all={METHODS}
      onChange={(value) => change('returnMethods', value)}
    />
  ),
  reasons: ({ draft, change }) => (
    <Reasons value={draft.reasons} onChange={(value) => change('reasons', value)} />
  ),
  fees: ({ draft, change, currency }) => (
    <Fees value={draft.fees} currency={currency} onChange={(value) => change('fees', value)} />
  ),
  review: (o) => <Review {...o} />,
  process: ({ draft, change, currency }) => (
    <>
      <OneOf
        name="moment"
        label="When"
        value={draft.process.moment}
        all={MOMENTS}
        onChange={(moment) => change('process', { ...draft.process, moment })}
      />
      {draft.process.moment !== Moment.MANUAL && (
        <DecimalField
          label={`Only up to this amount, ${currency}`}
          about="Refund and credit together. Empty: any amount."
          value={draft.process.upTo}
          onChange={(upTo) => change('process', { ...draft.process, upTo })}
        />
      )}
    </>
  ),
  refundBasis: ({ draft, change }) => (
    <OneOf
      name="refund-basis"
      label="Which units are paid"
      value={draft.refundBasis}
      all={BASES}
      onChange={(value) => change('refundBasis', value)}
    />
  ),
  withdrawals: ({ draft, change }) => (
    <OneOf
      name="withdrawals"
      label="What a withdrawal becomes"
      value={draft.withdrawals}
      all={WITHDRAWALS}
      onChange={(value) => change('withdrawals', value)}
    />
  ),
};

interface ListProps<T> {
  readonly value: readonly T[];
  readonly onChange: (value: T[]) => void;
}

const FRESH_WINDOW = { days: '14', from: Start.DELIVERED };
const FRESH_EXCEPTION: ExceptionDraft = { items: NO_ITEMS, window: undefined, outcomes: [] };

function Exceptions(o: ListProps<ExceptionDraft>) {
  return (
    <Entries noun="exception" fresh={FRESH_EXCEPTION} {...o}>
      {(entry, change) => (
        <>
          <ItemsFields value={entry.items} onChange={(items) => change({ items })} />
          <Checkbox
            label="Another time limit"
            checked={entry.window !== undefined}
            onChange={({ currentTarget }) =>
              change({ window: currentTarget.checked ? FRESH_WINDOW : undefined })
            }
          />
          {entry.window && (
            <WindowFields value={entry.window} onChange={(window) => change({ window })} />
          )}
          <Several
            label="Other outcomes"
            about="None chosen: as for all goods."
            value={entry.outcomes}
            all={OUTCOMES}
            onChange={(outcomes) => change({ outcomes })}
          />
        </>
      )}
    </Entries>
  );
}

/** The languages of the pages of shoppers. */
const LANGUAGES = [
  ['en', 'English'],
  ['de', 'German'],
  ['fr', 'French'],
  ['es', 'Spanish'],
] as const;

const FRESH_REASON: ReasonDraft = {
  code: '',
  parent: '',
  label: {},
  asksComment: false,
  waivesFee: false,
};

function Reasons(o: ListProps<ReasonDraft>) {
  return (
    <Entries noun="reason" fresh={FRESH_REASON} {...o}>
      {(entry, change) => (
        <>
          <SimpleGrid cols={{ base: 1, sm: 2 }}>
            <TextInput
              label="Code"
              description="Small letters, digits and _. It is in the returns, so keep it."
              pattern="[a-z0-9_]{1,50}"
              required
              value={entry.code}
              onChange={({ currentTarget }) => change({ code: currentTarget.value })}
            />
            <TextInput
              label="Code of its group"
              description="Empty: none."
              pattern="[a-z0-9_]{0,50}"
              value={entry.parent}
              onChange={({ currentTarget }) => change({ parent: currentTarget.value })}
            />
            {LANGUAGES.map(([language, name], place) => (
              <TextInput
                key={language}
                label={`Text in ${name}`}
                required={place === 0 && Object.values(entry.label).every((text) => text === '')}
                maxLength={200}
                value={entry.label[language] ?? ''}
                onChange={({ currentTarget }) =>
                  change({ label: { ...entry.label, [language]: currentTarget.value } })
                }
              />
            ))}
          </SimpleGrid>
          <Checkbox
            label="The shopper must comment"
            checked={entry.asksComment}
            onChange={({ currentTarget }) => change({ asksComment: currentTarget.checked })}
          />
          <Checkbox
            label="A return with only this reason costs no fee"
            checked={entry.waivesFee}
            onChange={({ currentTarget }) => change({ waivesFee: currentTarget.checked })}
          />
        </>
      )}
    </Entries>
  );
}

const FRESH_FEE: FeeDraft = {
  returnMethod: ReturnMethod.UNSPECIFIED,
  outcome: Outcome.UNSPECIFIED,
  kind: 'amount',
  value: '',
};

function Fees(o: ListProps<FeeDraft> & { readonly currency: string }) {
  const { currency, ...list } = o;
  const options = (all: readonly (readonly [number, string])[], any: string) =>
    [[0, any] as const, ...all].map(([value, label]) => ({ value: String(value), label }));
  return (
    <Entries noun="fee" fresh={FRESH_FEE} {...list}>
      {(entry, change) => (
        <SimpleGrid cols={{ base: 1, sm: 2 }}>
          <NativeSelect
            label="Way"
            value={String(entry.returnMethod)}
            // The options are values of the enum.
            onChange={({ currentTarget }) =>
              change({ returnMethod: Number(currentTarget.value) as ReturnMethod })
            }
            data={options(METHODS, 'any')}
          />
          <NativeSelect
            label="Outcome"
            value={String(entry.outcome)}
            // The options are values of the enum.
            onChange={({ currentTarget }) =>
              change({ outcome: Number(currentTarget.value) as Outcome })
            }
            data={options(OUTCOMES, 'any')}
          />
          <NativeSelect
            label="Kind of fee"
            value={entry.kind}
            onChange={({ currentTarget }) =>
              change({ kind: currentTarget.value === 'amount' ? 'amount' : 'percentage' })
            }
            data={[
              { value: 'amount', label: `An amount, ${currency}` },
              { value: 'percentage', label: 'A percentage of the goods' },
            ]}
          />
          <DecimalField
            label={entry.kind === 'amount' ? `Fee, ${currency}` : 'Fee, %'}
            required
            value={entry.value}
            onChange={(value) => change({ value })}
          />
        </SimpleGrid>
      )}
    </Entries>
  );
}

function Review({ draft, change, currency }: FieldsProps) {
  const { review, reasons } = draft;
  const set = (part: Partial<Draft['review']>) => change('review', { ...review, ...part });
  const known = reasons.map((reason) => [reason.code, reasonName(reason)] as const);
  const gone = review.reasons.filter((code) => !known.some(([one]) => one === code));
  return (
    <>
      <DecimalField
        label={`Goods are worth more than, ${currency}`}
        about="Empty: any value."
        value={review.valueAbove}
        onChange={(valueAbove) => set({ valueAbove })}
      />
      <SimpleGrid cols={{ base: 1, sm: 2 }}>
        <TextInput
          type="number"
          min={1}
          max={1_000}
          label="The shopper has more than this many returns"
          required={review.returnsDays !== ''}
          withAsterisk={false}
          value={review.returnsAbove}
          onChange={({ currentTarget }) => set({ returnsAbove: currentTarget.value })}
        />
        <TextInput
          type="number"
          min={1}
          max={365}
          label="in this many days"
          required={review.returnsAbove !== ''}
          withAsterisk={false}
          value={review.returnsDays}
          onChange={({ currentTarget }) => set({ returnsDays: currentTarget.value })}
        />
      </SimpleGrid>
      {known.length + gone.length > 0 && (
        <Several
          label="Reasons"
          value={review.reasons}
          all={[...known, ...gone.map((code) => [code, code] as const)]}
          onChange={(codes) => set({ reasons: codes })}
        />
      )}
      <Checkbox
        label="The shopper has an open fraud report"
        checked={review.fraudReport}
        onChange={({ currentTarget }) => set({ fraudReport: currentTarget.checked })}
      />
      <Checkbox
        label="Goods are missing, also when that is found later"
        checked={review.missing}
        onChange={({ currentTarget }) => set({ missing: currentTarget.checked })}
      />
    </>
  );
}
