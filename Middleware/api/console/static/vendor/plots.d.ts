// What `vendor/plots.js` gives to the page.
export { default } from "uplot";
