import { useLocation } from '@tanstack/react-router';
import { useEffect, useRef } from 'react';
import { FirstLine, SecondLine } from '../../parts/cell-lines.tsx';
import { LongText } from '../../parts/long-text.tsx';

/** The place of a connection in the page of assistants, for links to it. */
export function placeOf(assistantId: string): string {
  return `assistant-${assistantId}`;
}

/**
 * The app of an assistant. A link to the place of one of its connections leads here, and opens the fold around it.
 *
 * @param o.ids its connections.
 */
export function AppName({
  of: { app, clientId, selfName = '' },
  ids,
}: {
  readonly of: { readonly app: string; readonly clientId: string; readonly selfName?: string };
  readonly ids: readonly string[];
}) {
  const hash = useLocation({ select: (location) => location.hash });
  const isAsked = ids.some((id) => placeOf(id) === hash);
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!isAsked || !place.current) return;
    const fold = place.current.closest('details');
    if (fold) fold.open = true;
    place.current.focus();
  }, [isAsked]);
  return (
    <div ref={place} {...(isAsked && ASKED)}>
      <FirstLine>
        <LongText text={app || clientId} />
      </FirstLine>
      {app === '' && <SecondLine>its app is unknown</SecondLine>}
      {selfName !== '' && <SecondLine>calls itself “{selfName}”</SecondLine>}
    </div>
  );
}

/** Marks what a link leads to. */
const ASKED = {
  tabIndex: -1,
  style: { outline: '2px solid var(--mantine-primary-color-filled)', outlineOffset: 4 },
} as const;

/** The person for whom an assistant acts. */
export function Member({
  of: { userName, userEmail, own },
}: {
  readonly of: { readonly userName: string; readonly userEmail: string; readonly own: boolean };
}) {
  return (
    <>
      {own ? 'You' : userName || <LongText text={userEmail} />}
      {!own && userName !== '' && (
        <SecondLine>
          <LongText text={userEmail} />
        </SecondLine>
      )}
    </>
  );
}
