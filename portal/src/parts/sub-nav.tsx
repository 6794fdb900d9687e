import { Link, type LinkProps } from '@tanstack/react-router';
import styles from './sub-nav.module.css';

/** Links between the pages of one area. */
export function SubNav(o: {
  readonly label: string;
  readonly links: readonly (readonly [NonNullable<LinkProps['to']>, string])[];
}) {
  return (
    <nav aria-label={o.label} className={styles.nav}>
      {o.links.map(([to, title]) => (
        <Link
          key={to}
          to={to}
          className={styles.link ?? ''}
          activeOptions={{ exact: true, includeSearch: false }}
          activeProps={{ 'aria-current': 'page' }}
        >
          {title}
        </Link>
      ))}
    </nav>
  );
}
