// Before the first paint, so that a page that was chosen dark does not flash.
const theme = localStorage.getItem('linger.theme');
if (theme) document.documentElement.dataset.theme = theme;
