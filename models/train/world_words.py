"""Words of the little world: who, where, what. Tables only; world.py gives them laws.

Every noun is one word. A place stands under one setting, so that a walk within a setting makes sense, and an
activity stands under one place, so that doing it says where somebody is.
"""

HE = """Tom Ben Max Sam Leo Jack Adam Dan Eli Finn Gus Hugo Ian Jake Kai Liam Noah Oscar Paul Ralph Ray Seth Tim Toby
Victor Zack Aaron Arlo Boris Bruno Carl Cole David Dean Dylan Edgar Ethan Felix Frank Fred George Glen Henry Ivan
Jasper Joel John Jonas Karl Kevin Lars Louis Lucas Luke Martin Mason Miles Milo Nathan Neil Nolan Omar Otto Owen Peter
Philip Robert Roman Rory Ryan Scott Simon Stan Steve Theo Tony Vince Walter Hank Ned Ted Rex Pete Hans""".split()

SHE = """Mia Anna Lily Sara Zoe Eva Ella Emma Ida Ivy Jane Jill Kate Lena Lucy Luna Maya Nina Nora Olivia Penny Rosa
Ruby Ruth Sofia Stella Tina Uma Vera Wendy Yara Alice Amy Bella Beth Betty Carla Chloe Clara Cora Daisy Diana Dora Edith
Elena Elsa Emily Erin Fay Fiona Flora Freya Gina Gloria Grace Greta Hana Hazel Heidi Helen Holly Iris Isla Jenny Joan
Julia Kira Laura Lola Lydia Mary Marta Megan Molly Naomi Nancy Paula Polly Rachel Rita Sally Susan Tara Tess""".split()

# setting: lines of  i(ndoors) or o(utdoors), preposition, place | things there | what people do there
PLACES = {
    "home": """
i in kitchen | stove, sink, fridge | washed the plates; stirred the soup; wiped the counter
i in bedroom | bed, dresser, bookshelf | made the bed; folded the clothes; read a comic
i in living room | sofa, fireplace, armchair | watched a film; dusted the shelf; played the piano
i in bathroom | bathtub, shower, basin | took a long bath; filled the tub; scrubbed the tiles
i in attic | ladder rack, old beams, skylight | swept away the cobwebs; looked at old photos; counted the boards
i in cellar | shelves, steps, coal heap | stacked the jars; caught a spider; fetched some potatoes
i in garage | car, workbench, tool rack | washed the car; sorted the nails; pumped up a tire
i in hall | coat rack, front door, staircase | hung up the coats; polished the shoes; answered the door
o in garden | apple tree, rose bush, fence | watered the flowers; pulled some weeds; planted a bean
o in yard | swing, clothes line, shed | hung up the laundry; jumped over a puddle; chopped some wood
o on porch | rocking chair, railing, doormat | swept the porch; rested in the shade; waved at the neighbors""",
    "farm": """
i in barn | hay bales, tractor, barn door | stacked the hay; oiled the tractor; slept on the straw
i in stable | saddle, manger, stall | brushed the horse; cleaned the stall; tied up the pony
o in field | scarecrow, plow, furrow | picked some corn; chased the crows; dug up the turnips
o in meadow | tall grass, daisies, stump | picked some daisies; rolled in the grass; flew a paper plane
o in orchard | cherry tree, plum tree, wheelbarrow | shook a branch; gathered the plums; climbed the cherry tree
o by pond | reeds, stepping stones, willow | fed the ducks; skipped a pebble; watched the tadpoles
o at well | well rope, stone wall, crank | drew some water; turned the crank; drank cool water
i in henhouse | nest boxes, perch, feeder | collected the eggs; scattered some grain; counted the hens
o at gate | gatepost, hinge, milk cans | painted the gate; closed the latch; waited for the milk truck""",
    "town": """
o at market | fruit stand, fish stand, awning | tasted the grapes; weighed some onions; compared the prices
i in bakery | oven, counter, bread shelf | kneaded the dough; smelled the fresh bread; iced a bun
i in library | reading desk, globe stand, long shelves | borrowed a novel; whispered a poem; returned a thick book
o in park | bench, fountain, statue | fed the pigeons; practiced a cartwheel; rested on the grass
i at station | ticket office, platform, timetable | bought a ticket; waited for the train; studied the timetable
i in museum | dinosaur bones, marble hall, glass case | admired the paintings; drew a mummy; followed the guide
i in shop | shop window, till, shelf of tins | asked for change; read the labels; packed the groceries
i in post office | mail slot, stamp desk, scales | mailed a parcel; licked a stamp; signed a form
o on bridge | lamp post, iron rail, arch | watched the boats; threw crumbs to the swans; leaned on the rail
o in square | clock tower, cafe tables, flag pole | listened to the band; danced to the music; fed the sparrows
o in playground | slide, sandpit, seesaw | went down the slide; dug in the sandpit; spun on the carousel""",
    "woods": """
o in forest | tall oak, fern, mossy log | gathered some twigs; listened to a woodpecker; picked some mushrooms
o by river | river bank, raft, boulder | caught a trout; splashed in the water; built a dam
o by lake | jetty, rowboat, lily pads | swam in the lake; rowed a boat; watched the swans
o on hill | big rock, lone tree, signpost | flew high on a swing; rolled down the slope; gazed at the clouds
i in cave | dark corner, dripping wall, ledge | heard an echo; lit a torch; found an old bone
o at camp | tent, campfire, woodpile | roasted a sausage; pitched the tent; told a ghost story
o in valley | brook, stone hut, footpath | crossed the brook; called out to the hills; picked wild berries
i in cabin | iron stove, bunk bed, window seat | lit the stove; mended a sock; baked some beans
o by waterfall | wet rocks, rainbow, pool | filled a bottle with water; felt the cold spray; took a photo
i in treehouse | rope swing, trapdoor, lookout | pulled up the rope; carved a name; spied on the squirrels""",
    "school": """
i in classroom | blackboard, teacher's desk, wall map | solved a riddle; wrote on the blackboard; learned a new word
i in gym | climbing bars, mat, scoreboard | climbed the bars; did ten push-ups; bounced on the mat
o in schoolyard | big tree, bike stand, chalk lines | played hopscotch; skipped rope; parked the bike
i in music room | grand piano, music stand, speaker | sang a song; tuned a fiddle; clapped the beat
i in art room | easel, clay shelf, paint table | mixed some paint; shaped some clay; glued a collage
i in lunchroom | long table, water jug stand, food counter | ate a bowl of soup; unpacked some lunch; poured some juice
i in office | printer, filing tray, phone desk | copied a page; stapled some papers; typed a note
i in corridor | lockers, notice board, drinking tap | read the notice board; tied a shoelace; drank from the tap""",
    "sea": """
o on beach | sand castle, deck chair, driftwood | built a sand castle; gathered some shells; ran into the waves
o on pier | mooring post, ticket booth, fishing nets | untangled the nets; watched the fishing boats; waved at a sailor
i in lighthouse | spiral stairs, great lamp, round window | climbed the spiral stairs; polished the great lamp; counted the ships
o at harbor | anchor, crane, sailboat | washed the deck; coiled the ropes; hoisted the sail
i in boathouse | oars, canoe, paint cans | varnished the canoe; patched the sail; dried the oars
o in dunes | sea grass, sandy path, hollow | slid down the sand; hid from the wind; traced a snake's track
o by rock pool | seaweed, flat stone, starfish | poked at a crab; netted a shrimp; peered at a starfish
o at campsite | camper van, picnic table, hammock | swung in the hammock; grilled some fish; unrolled the sleeping bags""",
    "castle": """
i in tower | narrow window, bell rope, stone steps | rang the tower bell; looked far over the land; climbed the stone steps
i in throne room | throne, red carpet, banner | bowed to the king; carried the crown on a cushion; juggled for the queen
i in great hall | feast table, shields, hearth | set the feast table; played the lute; toasted the knights
o in courtyard | old fountain, hay cart, stone lion | practiced with a sword; chased a chicken; led a horse around
o on drawbridge | chains, moat, guard post | guarded the drawbridge; fished in the moat; greeted a knight
i in armory | armor stand, spear rack, anvil | sharpened a blade; polished the armor; counted the spears
o in rose garden | rose arch, sundial, hedge | trimmed the roses; smelled the roses; painted the sundial
i in chapel | candle stand, pew, stained glass | lit a candle; rang the small bell; hummed a hymn""",
}

COLOURS = "red blue green yellow white black brown pink purple gray orange golden silver".split()
COMMON_COLOURS = "red blue green yellow white black brown pink purple orange".split()
KINDS_OF = "old new small big little tiny shiny wooden soft round pretty long heavy".split()
TASTES = "sweet fresh ripe warm tasty big small juicy".split()
COATS = "little brown black white gray small spotted fluffy young".split()

# class: nouns; the class chooses the adjectives and what may happen to the thing
OBJECTS = {
    "toy": """ball kite doll puzzle drum robot balloon marble puppet train boat sled scooter whistle teddy rattle hoop
        racket wagon plane rocket skateboard dragon spinner truck yoyo frisbee""",
    "tool": """hammer saw rope ladder shovel rake broom brush wrench nail screwdriver torch lantern drill chisel mop
        sponge hose spade wheel chain hook ruler pump bolt mallet trowel file""",
    "house": """lamp cup plate bowl spoon fork pot pan kettle teapot jug mug vase clock mirror candle pillow blanket towel
        rug cushion radio camera phone telescope umbrella fan key bell bottle glass tray napkin curtain thermos stool""",
    "food": """apple pear banana lemon peach plum cherry melon carrot potato tomato onion pumpkin cake pie cookie muffin
        bun pretzel sandwich egg pancake waffle donut lollipop biscuit cupcake coconut mango fig turnip cabbage radish
        cucumber walnut pizza burger tart grape""",
    "wear": """hat cap scarf coat jacket sweater shirt dress glove mitten sock boot shoe belt tie ring necklace bracelet
        ribbon apron vest helmet mask crown robe cape hood button sandal slipper raincoat""",
    "school": """book pencil pen crayon notebook eraser map letter card stamp magazine newspaper diary poster painting
        sketch postcard envelope globe magnet""",
    "music": "flute guitar violin trumpet harp horn harmonica banjo tambourine ukulele",
    "nature": "stone shell feather leaf rose tulip acorn pinecone stick crystal coin pearl fossil seed nest pebble",
}
BOXES = "box basket bag jar sack suitcase backpack bucket pouch tin".split()              # can be carried
CHESTS = "chest cupboard drawer trunk crate barrel cabinet locker wardrobe safe".split()  # stay where they are
SMALL_ANIMALS = "puppy kitten rabbit duckling hamster mouse turtle frog bird sparrow hedgehog squirrel owl chick".split()
BIG_ANIMALS = """dog cat duck hen goat lamb pony calf fox parrot pigeon swan goose pig donkey deer seal monkey sheep cow
horse piglet otter beaver""".split()
SOUNDS = {"dog": "barked", "puppy": "barked", "cat": "meowed", "kitten": "meowed", "duck": "quacked", "hen": "clucked",
          "chick": "peeped", "pig": "grunted", "piglet": "squealed", "sheep": "bleated", "lamb": "bleated",
          "cow": "mooed", "calf": "mooed", "horse": "neighed", "pony": "neighed", "frog": "croaked", "owl": "hooted",
          "goose": "honked", "donkey": "brayed", "bird": "chirped", "sparrow": "chirped", "pigeon": "cooed"}

MOODS_GOOD = "happy glad proud excited cheerful calm".split()
MOODS_BAD = "sad worried upset lonely angry bored scared shy".split()
MOODS_MORE = "tired hungry surprised curious sleepy thirsty".split()

CITIES = """Oakton Rivertown Hillside Brookfield Seaport Maplewood Lakeview Greendale Stonebridge Sunnyvale Ashford
Redhill Millbrook Fairview Westport Kingsley""".split()
COUNTABLE = """apples pears eggs books coins shells stones pencils cards cookies balloons marbles flowers stamps buttons
nuts stickers beads plums buns feathers crayons keys cups hats""".split()
GROCERIES = """milk bread butter cheese rice sugar salt flour tea jam honey soap eggs apples carrots onions lemons fish
beans oats juice paper candles matches pepper corn yogurt water grapes tomatoes""".split()
HOBBIES = """kites apples books music chess trains horses cats dogs soup games maps stars songs cake rain snow puzzles
drums flowers boats robots swimming running dancing painting singing reading drawing fishing""".split()
JOBS = "baker teacher farmer doctor sailor painter driver singer cook nurse pilot gardener builder tailor".split()
PET_NAMES = "Spot Fluffy Rusty Coco Patch Smoky Ginger Biscuit Pepper Bubbles Sunny Pickle Snowy Buddy".split()
NUMBERS = """zero one two three four five six seven eight nine ten eleven twelve""".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
