import { Alert, Button } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useSyncExternalStore } from 'react';
import { PageHead } from '../parts/page-head.tsx';
import { EmptyState, ErrorState } from '../parts/states.tsx';

export function NotFound() {
  return (
    <>
      <PageHead title="Page not found" />
      <EmptyState
        title="There is no page at this address"
        action={
          <Button component={Link} to="/">
            Go to the first page
          </Button>
        }
      >
        The link may be old, or a part of it is missing.
      </EmptyState>
    </>
  );
}

/** A page that failed while it was drawn, or whose script could not be loaded after a new release. */
export function RouteError({ error }: { readonly error: unknown }) {
  return (
    <>
      <PageHead title="This page did not open" />
      <ErrorState error={error} retry={() => window.location.reload()} />
    </>
  );
}

/** Says on every page that the browser is offline: what is shown may be old. */
export function Offline() {
  const isOnline = useSyncExternalStore(onNetworkChange, () => navigator.onLine);
  if (isOnline) return null;
  return (
    <Alert color="yellow" role="status" title="No network" mb="md">
      Your browser is offline. What you see may be out of date, and nothing can be changed.
    </Alert>
  );
}

function onNetworkChange(listener: () => void): () => void {
  window.addEventListener('online', listener);
  window.addEventListener('offline', listener);
  return () => {
    window.removeEventListener('online', listener);
    window.removeEventListener('offline', listener);
  };
}

/** A page that the user's role may not open. */
export function NotAllowed() {
  return (
    <>
      <PageHead title="Not for your role" />
      <EmptyState title="Your role does not include this page">
        An owner or admin of your shop can change your role.{' '}
        <Link to="/team">What each role may do</Link>
      </EmptyState>
    </>
  );
}
