import { Button } from '@mantine/core';
import { useState } from 'react';
import { ReturnState } from '../../../../proto/gen/rms/returns/v1/return_pb.ts';
import { ReturnsService } from '../../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { ActionMenu } from '../../parts/action-menu.tsx';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { useSession } from '../../session/session.tsx';
import { type Checked, isUndecided, REFUSED_ID } from './check.ts';

const dialog = (name: keyof typeof import('./dialogs.tsx')) =>
  lazyPart(async () => (await import('./dialogs.tsx'))[name]);
const DIALOGS = {
  Process: lazyPart(async () => (await import('./process.tsx')).Process),
  AddNote: dialog('AddNote'),
  Flag: dialog('Flag'),
  Unflag: dialog('Unflag'),
  Cancel: dialog('Cancel'),
  ReportFraud: dialog('ReportFraud'),
};

/** What the user's role and the state of the return allow now. */
export function ReturnActions({ about, check }: Checked) {
  const { can, canCall } = useSession();
  const [opened, setDialog] = useState<keyof typeof DIALOGS>();
  const Dialog = opened && DIALOGS[opened];
  const { processReturn, flagReturn, unflagReturn, cancelReturn, addNote } = ReturnsService.method;
  const isOpen = about.state === ReturnState.OPEN && !about.processing;
  const others = [
    can(addNote) && (['AddNote', 'Add a note'] as const),
    can(flagReturn) && isOpen && (['Flag', 'Put into review'] as const),
    canCall('FraudService/CreateReport') && (['ReportFraud', 'Report fraud'] as const),
  ].filter((one) => one !== false);
  const isInReview = about.state === ReturnState.REVIEW;
  // Its dialog says why it is refused, so the action is offered all the same.
  const mayCancel = can(cancelReturn) && (isOpen || isInReview);
  return (
    <>
      {can(unflagReturn) && isInReview && (
        <Button onClick={() => setDialog('Unflag')}>End the review</Button>
      )}
      {can(processReturn) && isUndecided(about) && (
        <Button
          disabled={!isOpen || check.processingRefused !== ''}
          aria-describedby={isOpen && check.processingRefused === '' ? undefined : REFUSED_ID}
          onClick={() => setDialog('Process')}
        >
          Process
        </Button>
      )}
      {(others.length > 0 || mayCancel) && (
        <ActionMenu
          label="More"
          name="More actions"
          actions={[
            ...others.map(([key, title]) => ({ key, title, run: () => setDialog(key) })),
            ...(mayCancel
              ? [
                  {
                    key: 'Cancel',
                    title: isInReview ? 'Decline the return' : 'Cancel the return',
                    run: () => setDialog('Cancel'),
                    danger: true,
                    section: '',
                  },
                ]
              : []),
          ]}
        />
      )}
      {Dialog && <Dialog about={about} check={check} onClose={() => setDialog(undefined)} />}
    </>
  );
}
