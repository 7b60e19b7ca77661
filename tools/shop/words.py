"""The words the shop is made of."""

# ruff: noqa: RUF001, SIM905 - real names have such letters; a line of words reads better

from __future__ import annotations

FIRST_NAMES = (
    "Aino Björn Chloé Dragan Elif Fatima Goran Hana Iñaki Jürgen Katarzyna Lưu Mehmet Núria Olena "
    "Pádraig Quentin Ružica Søren Tomáš Ugo Väinö Wim Ximena Yūki Zoë"
).split()
LAST_NAMES = (
    "Andersen Berger Çelik Dvořák Eriksson Ferrari García Haddad Ivanov Jansen Kowalski Lefèvre "
    "Müller Nagy O'Brien Papadopoulos Rossi Szabó Tanaka Virtanen Weiß Yılmaz Zając"
).split()
COUNTRIES = "AT BE CH CZ DE DK ES FI FR GR HU IE IT NL NO PL PT SE TR UA".split()
CITIES = "Łódź Malmö Gdańsk Köln Zürich Győr Brno Pécs Ústí Cádiz".split()
ADJECTIVES = "Blue Cosy Double Folding Handmade Light Quiet Round Sturdy Tall Warm".split()
THINGS = "Basket Blanket Chair Desk Kettle Lamp Mirror Mug Rug Shelf Stool Teapot Vase".split()
COLOURS = "amber black blue cream green grey red teal white".split()
MATERIALS = "beech bamboo ceramic cotton glass linen steel wool".split()
REVIEWS = (
    "Exactly as described 👍",
    "Arrived with a scratch 😕 but the service replaced it within two days.",
    "Très joli, je recommande !",
    "Passt perfekt in die Küche – gerne wieder 🙂",
    "とても気に入りました。",
    "Цілком задоволена, дякую!",
    "Smaller than I thought.\nStill good.",
    "10/10 🎉🎉🎉 would buy again",
    "Çok güzel ama kargo yavaştı 🚚",
    'It\'s fine. The "oak" is beech, though.',
)
NOTES = (
    "Please ring twice",
    "Leave with the neighbour (nº 4)",
    "Gift wrap 🎁",
    "Lieferung nach 17 Uhr",
)
