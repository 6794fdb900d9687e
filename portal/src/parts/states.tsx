import { Alert, Button, Paper, Skeleton, Stack, Text, Title } from '@mantine/core';
import type { ReactNode } from 'react';
import { explain, isSignedOut, mayRepeat } from '../api/errors.ts';
import { PageHead } from './page-head.tsx';

/** What a list shows when it has no rows: why, and what to do. */
export function EmptyState(o: {
  readonly title: string;
  readonly children?: ReactNode;
  readonly action?: ReactNode;
}) {
  return (
    <Paper withBorder p="xl">
      <Stack align="center" gap="xs" ta="center">
        <Title order={2} size="h3">
          {o.title}
        </Title>
        {o.children !== undefined && (
          <Text c="dimmed" maw={520} component="div">
            {o.children}
          </Text>
        )}
        {o.action}
      </Stack>
    </Paper>
  );
}

/** Why something could not be loaded, and a button that tries again. */
export function ErrorState(o: { readonly error: unknown; readonly retry: () => void }) {
  const { title, text } = explain(o.error);
  return (
    <Alert color="red" title={title} role="alert">
      <Retry text={text} retry={mayRepeat(o.error) && o.retry} />
    </Alert>
  );
}

/** Says that what is shown could not be read again. */
function OldData(o: { readonly error: unknown; readonly retry: () => void }) {
  return (
    <Alert color="yellow" title="What you see may be out of date" role="status" mb="md">
      <Retry text={`It could not be loaded again. ${explain(o.error).text}`} retry={o.retry} />
    </Alert>
  );
}

function Retry({ text, retry }: { readonly text: string; readonly retry: false | (() => void) }) {
  return (
    <Stack gap="sm" align="flex-start">
      <Text size="sm">{text}</Text>
      {retry && (
        <Button size="xs" variant="default" onClick={retry}>
          Try again
        </Button>
      )}
    </Stack>
  );
}

/** Takes the space of rows that are loading, so that the page does not jump. */
export function LoadingRows({ rows = 8 }: { readonly rows?: number }) {
  return (
    <Stack gap="xs" aria-busy="true" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, row) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the rows are all alike.
        <Skeleton key={row} height={40} />
      ))}
    </Stack>
  );
}

export interface Loadable<T> {
  readonly data: T | undefined;
  readonly error: unknown;
  readonly isPending: boolean;
  /** Whether the error is of the next page of a list, which `More` shows. */
  readonly isFetchNextPageError?: boolean;
  refetch(): unknown;
}

/**
 * Shows a query: its rows, or the loading or error state. Data that is there stays while it is loaded again, and says so
 * when that failed.
 *
 * @param o.title the heading of the page until the data is there, for a page whose own heading is a part of the data.
 * @param o.back a link to where the reader came from, which also stays when there is an error.
 */
export function Loaded<T>(o: {
  readonly query: Loadable<T>;
  readonly rows?: number;
  readonly title?: string;
  readonly back?: ReactNode;
  readonly children: (data: T) => ReactNode;
}) {
  const { data, error, refetch, isFetchNextPageError = false } = o.query;
  if (data !== undefined) {
    const isOld = error && !isFetchNextPageError && !isSignedOut(error);
    return (
      <>
        {isOld && <OldData error={error} retry={() => void refetch()} />}
        {o.children(data)}
      </>
    );
  }
  return (
    <>
      {o.back}
      {o.title !== undefined && <PageHead title={o.title} />}
      {error ? (
        <ErrorState error={error} retry={() => void refetch()} />
      ) : (
        <LoadingRows {...(o.rows !== undefined && { rows: o.rows })} />
      )}
    </>
  );
}
