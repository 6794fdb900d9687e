import { Button } from '@mantine/core';
import { Link } from '@tanstack/react-router';
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
