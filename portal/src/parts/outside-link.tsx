import type { ReactNode } from 'react';

/** A link to another host. The address comes from outside of the shop, so that only web addresses can be followed. */
export function OutsideLink({
  url,
  children,
}: {
  readonly url: string;
  readonly children: ReactNode;
}) {
  if (!/^https?:\/\//i.test(url)) return <>{children}</>;
  return (
    <a href={url} target="_blank" rel="noreferrer noopener">
      {children}
      <span className="visually-hidden"> (opens in a new tab)</span>
    </a>
  );
}
