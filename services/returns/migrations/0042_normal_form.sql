-- fits: 0.1.0
-- The form in which identities are compared: NFC, trimmed. The white space is that of `trim` in JavaScript, so that
-- `normalForm` in services/platform/text.ts returns the same. The previous release reads `returns_by_order_name`.
create function normal_form(text) returns text
  language sql immutable strict parallel safe
  return btrim(normalize($1, NFC), E' \t\n\u000b\f\r\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff');

create index returns_by_normal_order_name on returns (shop_id, normal_form(order_name), created_at desc, id desc);
