import { Button } from '@mantine/core';
import { useState } from 'react';
import type { Return } from '../../../../proto/gen/rms/portal/v1/return_pb.ts';
import { ActionMenu } from '../../parts/action-menu.tsx';
import { lazyPart } from '../../parts/lazy-part.tsx';

const ReportFraud = lazyPart(async () => (await import('./report-fraud.tsx')).ReportFraud);
const AddNote = lazyPart(async () => (await import('./review-dialogs.tsx')).AddNote);
const Cancel = lazyPart(async () => (await import('./review-dialogs.tsx')).Cancel);
const Flag = lazyPart(async () => (await import('./review-dialogs.tsx')).Flag);
const Unflag = lazyPart(async () => (await import('./review-dialogs.tsx')).Unflag);
const Process = lazyPart(async () => (await import('./process.tsx')).Process);

/** The dialogs by the name of the action in `possible`. */
const DIALOGS = {
  process: Process,
  add_note: AddNote,
  flag: Flag,
  unflag: Unflag,
  cancel: Cancel,
  report_fraud: ReportFraud,
};

const OTHERS = [
  ['add_note', 'Add a note'],
  ['flag', 'Put into review'],
  ['report_fraud', 'Report fraud'],
] as const;

/** The element that says why the return cannot be processed. */
export const REFUSED_ID = 'processing-refused';

/** What the user's role and the state of the return allow now. */
export function ReturnActions({ about }: { readonly about: Return }) {
  const [dialog, setDialog] = useState<keyof typeof DIALOGS>();
  const may = (action: string) => about.possible.includes(action);
  const others = OTHERS.filter(([action]) => may(action));
  const Dialog = dialog && DIALOGS[dialog];
  return (
    <>
      {may('unflag') && (
        <Button variant={may('process') ? 'default' : 'filled'} onClick={() => setDialog('unflag')}>
          End the review
        </Button>
      )}
      {(may('process') || about.processingRefused !== '') && (
        <Button
          disabled={about.processingRefused !== ''}
          aria-describedby={about.processingRefused === '' ? undefined : REFUSED_ID}
          onClick={() => setDialog('process')}
        >
          Process
        </Button>
      )}
      {(others.length > 0 || may('cancel')) && (
        <ActionMenu
          label="More"
          name="More actions"
          actions={[
            ...others.map(([key, title]) => ({ key, title, run: () => setDialog(key) })),
            ...(may('cancel')
              ? [
                  {
                    key: 'cancel',
                    title: 'Cancel the return',
                    run: () => setDialog('cancel'),
                    danger: true,
                    section: '',
                  },
                ]
              : []),
          ]}
        />
      )}
      {Dialog && (
        <Dialog
          about={about}
          returnId={about.summary?.id ?? '0'}
          onClose={() => setDialog(undefined)}
        />
      )}
    </>
  );
}
