// Sorts the table, and lifts the lines of a policy in all pictures together.
const theme = document.getElementById('theme');
const setTheme = name => { document.documentElement.dataset.theme = name; theme.textContent = name === 'dark' ? 'light' : 'dark'; };
setTheme(matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
theme.onclick = () => setTheme(theme.textContent);

const table = document.querySelector('table');
table?.querySelectorAll('thead button').forEach((button, column) => {
  button.onclick = () => {
    const cell = button.parentElement, isDown = cell.getAttribute('aria-sort') === 'ascending';
    table.querySelectorAll('thead th').forEach(other => other.setAttribute('aria-sort', 'none'));
    cell.setAttribute('aria-sort', isDown ? 'descending' : 'ascending');
    const key = row => row.children[column].dataset.value ?? row.children[column].textContent;
    const compare = (a, b) => (isNaN(key(a)) || isNaN(key(b)) ? key(a).localeCompare(key(b)) : key(a) - key(b)) * (isDown ? -1 : 1);
    table.tBodies[0].append(...[...table.tBodies[0].rows].sort(compare));
  };
});

const nameOf = node => [...node.classList].find(name => /^s\d+$/.test(name));
document.querySelectorAll('.picture [class]').forEach(node => {
  const same = () => document.querySelectorAll('.picture path.' + nameOf(node));
  node.addEventListener('pointerenter', () => same().forEach(path => path.classList.add('lifted')));
  node.addEventListener('pointerleave', () => same().forEach(path => path.classList.remove('lifted')));
  node.addEventListener('click', () => same().forEach(path => path.classList.toggle('kept')));
});
