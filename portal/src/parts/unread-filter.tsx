import { Link } from '@tanstack/react-router';
import type { UnreadFilter } from '../search.ts';
import { EmptyState } from './states.tsx';

const KINDS = {
  return: 'the number of a return',
  replay: 'the number of a job',
  webhook: 'the number of a webhook',
  destination: 'the number of a destination',
  from: 'a date',
  to: 'a date',
  mark: 'a mark of returns',
};

/** Says what to type, in place of a list. */
export function UnreadFilterState({ of: { name, text } }: { readonly of: UnreadFilter }) {
  return (
    <EmptyState title={`“${text}” is not ${KINDS[name]}`}>
      {name === 'return' ? (
        <>
          Type the number of the return, which has only digits, such as 1042.{' '}
          <Link to="/returns" search={{ q: text }}>
            Search the returns for “{text}”
          </Link>{' '}
          to find its number.
        </>
      ) : (
        'Type or choose another one, or clear the filters.'
      )}
    </EmptyState>
  );
}
