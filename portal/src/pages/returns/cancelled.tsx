import { Alert } from '@mantine/core';
import type { Return } from '../../../../proto/gen/rms/portal/v1/return_pb.ts';
import { Loaded } from '../../parts/states.tsx';
import { entryText, useTimeline, When } from './timeline.tsx';

/** Why, by whom and when the return was cancelled, as its timeline says. */
export function Cancelled({ about }: { readonly about: Return }) {
  return (
    <Alert color="gray" role="status" title="Cancelled">
      <Loaded query={useTimeline(about)} rows={1}>
        {({ pages }) => {
          const entry = pages
            .flatMap(({ entries }) => entries)
            .find(({ kind }) => kind === 'return.cancelled');
          if (!entry) return 'The timeline says when, by whom and why.';
          return (
            <>
              {entryText(entry)}
              <When entry={entry} />
            </>
          );
        }}
      </Loaded>
    </Alert>
  );
}
