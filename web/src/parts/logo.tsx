// The mark: three jobs one after the other.

export const Logo = () => (
  <span class="logo">
    <svg viewBox="0 0 22 20" width="22" height="20" aria-hidden="true">
      <rect x="0" y="1" width="12" height="5" rx="1.5" fill="#56b4e9" />
      <rect x="6" y="7.5" width="16" height="5" rx="1.5" fill="#e69f00" />
      <rect x="2" y="14" width="10" height="5" rx="1.5" fill="#2fb58a" />
    </svg>
    rota
  </span>
);
