import { FirstLine, SecondLine } from '../../parts/cell-lines.tsx';
import { LongText } from '../../parts/long-text.tsx';

/** The app of an assistant. */
export function AppName({
  of: { app, clientId },
}: {
  readonly of: { readonly app: string; readonly clientId: string };
}) {
  return (
    <>
      <FirstLine>
        <LongText text={app || clientId} />
      </FirstLine>
      {app === '' && <SecondLine>its app is unknown</SecondLine>}
    </>
  );
}

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
